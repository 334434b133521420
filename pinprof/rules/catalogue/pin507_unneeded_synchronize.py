from pinprof.rules.rule import Rule

RULE = Rule(
    id="PIN507",
    title="a synchronize that the host did not need",
    numbers="equal",
    looks_at="Calls of synchronize that waited for copies whose memory the host then did not use. Found by "
    "pinprof.guard(report_unneeded=True) while the program runs.",
    why="The host waits, and cannot queue the work that would keep the GPU busy.",
    fix="Remove it, or wait for an event after the copy that is needed.",
    before="x = staging.to(device, non_blocking=True)\ntorch.cuda.synchronize()\n"
    "loss = model(x)  # comes behind the copy on the GPU anyway",
    code="x = staging.to(device, non_blocking=True)\nloss = model(x)",
    safe_if="Nothing else relies on the wait: a measured time, memory that numpy or another library reads, work of a "
    "stream that torch does not know, an error that should be raised here. One run shows one path of the program.",
    near_miss="host = x.to('cpu', non_blocking=True)\ntorch.cuda.synchronize()\nlog(host.mean())  # needs the wait",
)
