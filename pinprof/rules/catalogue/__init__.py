"""The rules, a module each: a new module is a new rule, found by its name."""
