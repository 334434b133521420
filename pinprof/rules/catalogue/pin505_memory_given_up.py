from pinprof.rules.rule import Rule

RULE = Rule(
    id="PIN505",
    title="unprotected memory given up before its copy has ended",
    numbers=None,
    why="torch keeps pinned memory that it has allocated until the copies that use it have ended. It knows nothing of "
    "memory that you register by hand: the copy goes on to read or write memory that now belongs to another tensor.",
    fix="Keep the tensor until the copy is known to have ended, or let torch allocate the memory: torch.empty(..., "
    "pin_memory=True).",
    before="cudart.cudaHostRegister(x.data_ptr(), x.nbytes, 0)\ny = x.to(device, non_blocking=True)\n"
    "cudart.cudaHostUnregister(x.data_ptr())",
    code="pinned = torch.empty_like(x, pin_memory=True).copy_(x)\ny = pinned.to(device, non_blocking=True)\n"
    "del pinned  # torch keeps the memory until the copy has ended",
    safe_if="The program does not need the registered memory itself: data of another library is copied once.",
    near_miss="y = host.to(device, non_blocking=True)  # torch pinned it, and keeps it until the copy has ended\n"
    "del host",
)
