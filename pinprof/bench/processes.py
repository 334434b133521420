"""E11, E12, E13: what an article does and says that times pinned against pageable memory over processes."""

from pinprof.bench import processes_judges as judges
from pinprof.bench.experiment import (
    ANSWER,
    ARTICLE,
    GIB,
    MIB,
    OURS,
    PROCESSES,
    TUTORIAL,
    Claim,
    Experiment,
    Published,
    Size,
)
from pinprof.bench.judging import NotJudged, answers, less

FORKED = (
    "Its processes are forked from one that has imported torch and never touched CUDA; the text's import it themselves"
)
"""How the processes of both programs start here."""

OF_PROCESSES = {
    "E11": Experiment(
        "E11",
        "processes",
        "two processes that copy 40 MB each from pageable and from pinned memory: the first time and later",
        (
            Claim(
                "Pinned memory is 81 to 90 times as fast as pageable memory",
                (PROCESSES,),
                judges.as_fast_as_published,
                "1.055 s against 12.9 ms and 1.169 s against 13.0 ms: 81.47 and 89.80 times",
                f"the first copy of a process has the first use of CUDA in it, and {judges.ARRIVES}",
            ),
            Claim(
                "The first copy is slow, pinned or not: most of it is the first use of CUDA here",
                (OURS,),
                judges.was_first_use,
            ),
            Claim(
                'The "pinned" tensor, passed bare to a process, arrives unpinned and in shared memory',
                (OURS,),
                answers({"pinned in the parent": True, "pinned on arrival": False, "shared on arrival": True}),
            ),
        ),
        (
            Published("pageable, first", 1054.59),
            Published("pinned, second", 12.945),
            Published("times as fast, as written", 81.47),
        ),
        (
            Size("floats", 10_000_000, "numbers of 4 bytes that each process copies"),
            Size("processes", 2, "processes that copy at the same time"),
        ),
        ("pageable", "pinned, as it arrives", "pinned in the child"),
        "the program is run as it is, then with the two copies in the other order, then after a warm-up with a third "
        f"copy, of a tensor pinned in the child. {FORKED}",
    ),
    "E12": Experiment(
        "E12",
        "pinned_in_object",
        "a pinned tensor in an object that is sent to two processes, copied to the GPU there; and one sent bare",
        (
            Claim(
                "The pinned tensor of an object is no faster than the pageable one",
                (PROCESSES,),
                judges.no_faster_in_the_object,
                "13.7 against 13.5 and 13.8 against 13.6 ms: 1.01 times",
            ),
            Claim(
                "The object makes it slow: sent bare, the tensor is faster",
                (PROCESSES,),
                judges.faster_bare,
                "bare 12.9 and 13.0 ms (E11)",
                "the clock of one program counts the first use of CUDA, the events of the other do not",
            ),
            Claim(
                "The two programs of the text differ in the clock, not in the object",
                (OURS,),
                judges.differs_in_the_clock,
                "81 times (E11) by time.perf_counter; 1.01 times in the object by CUDA events",
                "by perf_counter the first copy has the first use of CUDA in it; the first event comes after that",
            ),
            Claim(
                "The tensor arrives unpinned, in an object or bare",
                (OURS,),
                answers(
                    {"pinned in the parent": True, "pinned in the child": False, "pinned, bare in the child": False}
                ),
            ),
            Claim(
                "Pinned in the child itself, it is faster than the tensor that was sent",
                (OURS,),
                less("pinned in the child itself", "pinned, sent to the child"),
            ),
            Claim(
                "Data in shared memory are copied to the GPU as pageable data are, not as pinned",
                (TUTORIAL,),
                judges.goes_as_pageable,
                differs="judged by how such a copy behaves compared with a pageable one; E13 says how that one goes",
            ),
        ),
        (
            Published("pageable, as written", 13.695),
            Published("pinned, as written", 13.505),
            Published("times as fast, as written", 1.01),
        ),
        (
            Size("floats", 10_000_000, "numbers of 4 bytes in the tensor"),
            Size("processes", 2, "processes that copy at the same time"),
        ),
        ("pageable", "pinned, sent to the child", "pinned in the child itself"),
        "the program is run as it is; then with the clock of E11, and that of E11 with CUDA events; then each copy is "
        f"repeated after a warm-up. The repeated bare tensor and the one pinned in the child are ours. {FORKED}",
    ),
    "E13": Experiment(
        "E13",
        "bandwidth",
        "copies of 4 KiB to 1 GiB in both directions, from and to pageable and pinned memory, and on the GPU",
        (
            Claim(
                "Copies of pinned memory have more than twice the rate of pageable ones",
                (PROCESSES,),
                judges.more_than_twice,
                differs="it depends on the link, and on how fast the host stages",
            ),
            Claim(
                "Copies of pinned memory reach the rate of the link",
                (PROCESSES,),
                judges.reaches_the_link,
                '"basically" the bandwidth of PCIe',
            ),
            Claim(
                "Those of pageable memory do not: both ways and at all sizes from 1 MiB on they are slower",
                (TUTORIAL, ARTICLE, PROCESSES),
                judges.slower_pageable,
            ),
            Claim(
                "The driver stages them: the host copies pageable memory before the GPU does",
                (TUTORIAL, ARTICLE, PROCESSES),
                judges.is_staged,
                differs="a call that lasts may also wait: only of small sources is it seen that they are copied",
            ),
            Claim(
                "The GPU cannot access data directly from pageable memory",
                (ARTICLE, PROCESSES),
                answers({judges.PAGEABLE_ACCESS: False}),
                differs="Linux and the driver may let kernels read pageable memory in place; copies are staged all the "
                "same",
            ),
            Claim(
                "What the driver stages them through is pinned memory of its own",
                (TUTORIAL, ARTICLE, PROCESSES),
                NotJudged("no figure of a program shows the driver's own memory; that it stages is judged above"),
            ),
            Claim(
                "Pinned memory is faster because none of it is on disk",
                (ANSWER,),
                judges.slower_though_in_memory,
                differs="it costs the second copy, within the host's memory; the same answer speaks of it",
            ),
            Claim(
                "Pinned memory gains more for large tensors than for small ones",
                (TUTORIAL,),
                judges.gains_more_when_large,
                differs="of small copies the time to start decides, of large ones the rate",
            ),
            Claim(
                "The rates differ from machine to machine", (PROCESSES,), judges.differ_between_machines, "NVS 4200M"
            ),
            Claim(
                "They depend on the host's board, CPU and chipset, and on the GPU",
                (PROCESSES,),
                NotJudged("one machine does not show which of its parts makes the rates what they are"),
            ),
            Claim(
                "The GPU reaches its own memory at a much higher rate than the host's",
                (ARTICLE,),
                judges.own_memory_is_faster,
                differs="it depends on the link and the GPU's memory; here more than twice is much higher",
            ),
            Claim(
                "Pinned memory makes copies more predictable",
                (TUTORIAL,),
                judges.more_predictable,
                differs="both vary with what else the host does",
            ),
            Claim(
                "A non_blocking copy of pinned memory does not hold the host: the call comes back at once",
                (TUTORIAL, ARTICLE, PROCESSES),
                judges.host_is_free,
            ),
            Claim(
                "Pinned memory is copied by DMA, which leaves the CPU free",
                (PROCESSES,),
                judges.leaves_the_cpu_free,
                differs="judged by the time that CPUs run for the process while the copy does",
            ),
            Claim(
                "With non_blocking=True the host is not blocked, whatever the memory",
                (TUTORIAL,),
                judges.pageable_holds_the_host,
                differs="a small pageable source the driver takes along at once; a larger one it stages in the call, "
                "and waits for the stream first",
            ),
        ),
        judges.PUBLISHED_RATES,
        (
            Size("least", 4096, "bytes of the smallest copy", of_text=False),
            Size(
                "most",
                GIB,
                "bytes of the largest copy; each is four times the one before",
                quick=64 * MIB,
                of_text=False,
            ),
        ),
        ("HtoD pageable", "HtoD pinned", "DtoH pageable", "DtoH pinned", "DtoD"),
        "the text's figures are of an old laptop, at 16 MB alone; the other sizes are ours",
    ),
}
