"""Rules 7xx: what the GPU spends its own time on, where the recording proves that it could take less."""

from pinprof.rules.gpu import attention, layouts, precision

RULES = (*precision.RULES, *layouts.RULES, *attention.RULES)
