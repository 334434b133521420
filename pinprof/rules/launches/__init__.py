"""Rules 6xx: a host that cannot launch kernels as fast as the GPU runs them."""

from pinprof.rules.launches import host, optimizer, python, small

RULES = (*small.RULES, *optimizer.RULES, *python.RULES, *host.RULES)
