"""Rules 6xx: a host that cannot launch kernels as fast as the GPU runs them."""

from pinprof.rules.launches import casts, compiling, host, optimizer, python, small, tiny

RULES = (
    *(*small.RULES, *optimizer.RULES, *python.RULES, *host.RULES),
    *(*compiling.RULES, *casts.RULES, *tiny.RULES),
)
