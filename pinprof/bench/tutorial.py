"""E1 to E7: what the PyTorch tutorial on pin_memory() and non_blocking does and says."""

from pinprof.bench import tutorial_judges as judges
from pinprof.bench.experiment import ANSWER, ARTICLE, MIB, OURS, PROCESSES, TUTORIAL, Claim, Experiment, Published, Size
from pinprof.bench.judging import all_less, extreme, faster, less, not_less, right, wrong

FLOATS = "numbers of 4 bytes in the tensor"
OF_EACH = "numbers of 4 bytes in each tensor"

TUTORIALS = (
    Experiment(
        "E1",
        "pinning_cost",
        "one tensor of 4 MB: copied from pageable memory, from pinned memory, pinned, and pinned and copied",
        (
            Claim(
                "A copy from pinned memory is faster",
                (TUTORIAL, ARTICLE, ANSWER, PROCESSES),
                less("pinned.to", "pageable.to"),
                differs=(
                    "it depends on how fast one thread of the host stages a pageable copy, and the link a pinned one"
                ),
            ),
            Claim(
                "To pin a tensor and then copy it is usually slower than to copy it",
                (TUTORIAL,),
                judges.usually_slower,
                differs="fresh pinned memory takes long to get; torch keeps it and uses it again (E15), and then to "
                "pin may cost less than the driver's staging",
            ),
            Claim(
                "pin_memory().to(device, non_blocking=True) can be slower than a plain to(device)",
                (TUTORIAL,),
                judges.can_be_slower,
                "of many tensors 324 against 394 ms (E3): by its own figures faster; blocking 573 ms",
                "what it costs to get pinned memory and to fill it, against what the driver's staging costs",
            ),
            Claim(
                "pin_memory().to(device, non_blocking=True) takes at most twice the time of a plain to(device)",
                (TUTORIAL,),
                judges.at_most_twice,
                differs="fresh pinned memory takes long to get (E15)",
            ),
            Claim(
                "In rare cases to pin first is faster than the driver's copy in pieces",
                (TUTORIAL,),
                judges.can_be_faster,
                differs="memory that torch has kept costs little to get, new pinned memory much (E15); that such cases "
                "are rare, one machine cannot say",
            ),
            Claim(
                "pin_memory() holds the host: later work begins only when the tensor is pinned",
                (TUTORIAL,),
                judges.holds_the_host,
                differs="where many threads of the host fill memory that torch has kept, its call takes little longer "
                "than one that only queues a copy",
            ),
            Claim(
                "A pinned buffer that is kept for all copies remains limited by the copy into it",
                (TUTORIAL,),
                less("pinned.to", judges.KEPT_BUFFER),
                differs="where many threads of the host copy, it takes little compared with the copy to the GPU",
            ),
            Claim(
                "To allocate directly in pinned memory avoids the cost of the copy from pageable memory to it",
                (ARTICLE,),
                less(judges.MADE[1], judges.MADE[0]),
                differs="where many threads of the host copy, that copy takes little compared with the one to the GPU",
            ),
        ),
        (
            Published("pageable.to", 0.369),
            Published("pinned.to", 0.315),
            Published("pageable.pin_memory()", 0.112),
            Published("pageable.pin_memory().to", 0.433),
        ),
        (Size("floats", 1_000_000, FLOATS),),
        (
            "pageable.to",
            "pinned.to",
            "pageable.pin_memory()",
            "pageable.pin_memory().to",
            "pageable.pin_memory().to, non_blocking",
        ),
        "the copy with non_blocking after pinning is of its opening, not of its program. Torch keeps pinned memory "
        "(E15): after the first run pin_memory() is a copy into a buffer that is kept. The runs with fresh memory, "
        "for which torch gives back what it has before each, the calls alone, the larger tensor, and the buffers "
        "that are kept or written by the host are ours",
    ),
    Experiment(
        "E2",
        "small_tensors",
        "1000 tensors of 4 kB, each waited for, or all and one synchronize",
        (
            Claim(
                "Of many small tensors, non_blocking copies and one synchronize are faster",
                (TUTORIAL,),
                faster("non_blocking, one synchronize", "blocking"),
                differs="it depends on what a wait costs the host, compared with a launch",
            ),
            Claim("The host waits once instead of once per tensor", (TUTORIAL,), judges.one_wait),
            Claim(
                "A blocking copy is the same asynchronous copy with a wait after it",
                (TUTORIAL,),
                judges.same_call,
                "profiles: cudaMemcpyAsync in both, cudaStreamSynchronize in the blocking one",
            ),
        ),
        (
            Published("blocking", 16.35),
            Published("non_blocking, one synchronize", 12.05),
            Published("waits, blocking", 1000),
            Published("waits, non_blocking", 1),
        ),
        (Size("tensors", 1000, "how many tensors"), Size("floats", 1000, OF_EACH)),
        ("blocking", "non_blocking, one synchronize"),
    ),
    Experiment(
        "E3",
        "six_strategies",
        "1000 tensors of 4 MB: pageable, pinned, or pinned just before the copy; blocking or not",
        (
            Claim(
                "To pin, copy and wait for each is the worst of six",
                (TUTORIAL,),
                extreme("pin and copy, blocking", judges.STRATEGIES, "more"),
                "its bars; no sentence says so",
                differs="it depends on what it costs to pin, against what the driver's staging costs",
            ),
            Claim(
                "Pinned beforehand and non_blocking is the best of six",
                (TUTORIAL,),
                extreme("pinned, non_blocking", judges.STRATEGIES, "less"),
                "its bars; no sentence says so",
                differs="where pinning keeps up with the link, to pin on the way is as fast",
            ),
            Claim(
                "Generally, non_blocking=True makes copies to the GPU faster",
                (TUTORIAL,),
                judges.generally_faster,
                differs="of large pageable tensors the driver's staging takes the time, whoever waits for it",
            ),
            Claim(
                "From the host's view several tensors are sent at once: it sends the next before the last has arrived",
                (TUTORIAL,),
                judges.sent_at_once,
                differs="small tensors arrive sooner than the host asks for the next",
            ),
            Claim(
                "How much it gains varies with the number and size of the tensors",
                (TUTORIAL,),
                judges.gain_varies,
                differs="it depends on what a wait costs, compared with the copy that is waited for",
            ),
            Claim(
                "To pin each tensor in the main thread before a non_blocking copy is no faster than to copy it "
                "pageable",
                (TUTORIAL,),
                not_less("pin and copy, non_blocking", "pageable, non_blocking"),
                differs="the host pins the next tensor while the last one is copied, faster than the driver stages",
            ),
            Claim(
                "The tutorial's opening conclusions hold on this machine",
                (TUTORIAL,),
                judges.conclusions_hold,
                "its figures are of its own system and may vary",
                "each conclusion has its own verdict; of systems in general one machine says nothing",
            ),
        ),
        judges.PUBLISHED_STRATEGIES,
        (Size("tensors", 1000, "how many tensors", quick=100), Size("floats", 1_000_000, OF_EACH)),
        judges.STRATEGIES,
        "the few tensors are ours: four of the same size",
    ),
    Experiment(
        "E4",
        "copy_overlap",
        "a copy of 20 MiB during kernels, on their stream or another, pageable or pinned; and during another copy",
        (
            Claim(
                "A copy overlaps kernels only if it is pinned and on a side stream",
                (TUTORIAL,),
                judges.only_pinned_and_streamed(judges.KERNELS_FIRST),
                "four traces; the copy overlaps the kernel in one: side stream, pinned",
                "the call of a pageable copy holds the host: only kernels that were launched before it can hide the "
                "copy, and the text launches them after it",
            ),
            Claim(
                "Of the text's own four cases only the pinned copy on a side stream overlaps the kernels",
                (TUTORIAL,),
                judges.only_pinned_and_streamed(kernels=judges.TEXTS_KERNELS),
                "the same four traces",
                "the kernels end long before the copy: only their own length can be hidden",
            ),
            Claim(
                "Of code that comes to the GPU kernel by kernel, transfers may take most of the time",
                (ARTICLE,),
                judges.takes_longer_than_a_kernel,
                differs="one product for each number is the least that a kernel does: others take a larger share",
            ),
            Claim(
                "On the default stream a copy and kernels take turns",
                (TUTORIAL,),
                judges.in_turn,
                "two traces of the four",
            ),
            Claim(
                "A copy needs a free copy engine: it waits for another one that goes the same way",
                (TUTORIAL,),
                judges.run_at_once(judges.TWO_COPIES[1], expected=False),
                differs="a GPU may have several engines for one way; they share its link",
            ),
            Claim(
                "Modern GPUs have more than one: a copy the other way runs at the same time",
                (TUTORIAL,),
                judges.run_at_once(judges.TWO_COPIES[2], expected=True),
                differs="a GPU with one copy engine copies one way at a time",
            ),
        ),
        sizes=(Size("floats", 5 * MIB, "numbers of 4 bytes in the copied tensor"),),
        cases=(
            *judges.CASES,
            judges.KERNELS_FIRST,
            *(f"{case}{judges.TEXTS_KERNELS}" for case in judges.CASES),
            *judges.TWO_COPIES,
        ),
        changed="the text multiplies a tensor of 20 MiB by itself twice; on a fast GPU that takes a tenth of the copy, "
        "so the first cases have products of matrices, longer than the copy. The case with kernels first, the copies "
        "during copies, and the kernel between a copy there and one back, are ours",
    ),
    Experiment(
        "E5",
        "early_read",
        "copied with non_blocking=True and read at once: on the host, there after a synchronize, and on the GPU",
        (
            Claim(
                'Values read right after to("cpu", non_blocking=True) are wrong',
                (TUTORIAL,),
                wrong("read at once"),
                "at the first of 100 tries",
            ),
            Claim(
                "After a synchronize they are right", (TUTORIAL,), right("read after synchronize"), "none of 100 tries"
            ),
            Claim(
                'to("cuda", non_blocking=True).mean() is right without a synchronize', (TUTORIAL,), right(*judges.SENT)
            ),
            Claim(
                "When a non_blocking copy to the GPU returns, the data may still be on the host",
                (ANSWER,),
                judges.still_on_the_host,
                differs="a short copy may have ended when its call returns",
            ),
            Claim(
                "So what is used on the GPU right after it may not be there",
                (ANSWER,),
                judges.read_too_early,
                differs="the kernel that reads it is behind the copy on its stream",
            ),
            Claim(
                "A background thread moves the data",
                (ANSWER,),
                judges.moved_by_a_thread,
                differs="the GPU copies pinned memory by itself; pageable memory the calling thread stages",
            ),
        ),
        sizes=(
            Size("rows", 100, "rows of the tensor"),
            Size("columns", 999_999, "numbers of 8 bytes in a row"),
            Size("tries", 100, "how often it is tried", quick=10),
        ),
        cases=("read at once", "read after synchronize", *judges.SENT),
        changed="each try has other numbers: else the memory of the copy before holds the right ones. What goes to the "
        "GPU is a tenth as large; whether its copy has ended when its call returns, and how busy other threads are "
        "meanwhile, no text measures",
    ),
    Experiment(
        "E6",
        "early_write",
        "a source overwritten on the host right after its copy to the GPU was queued, before or after a long kernel",
        (
            Claim(
                "What is written into a pinned source right after a non_blocking copy may reach the GPU",
                (TUTORIAL,),
                wrong("pinned source, copy then kernel"),
                "within two tries",
                "here it is a race of the host's write with the copy",
            ),
            Claim("If a kernel is queued first, the late write reaches the GPU", (OURS,), wrong("pinned source")),
            Claim(
                "With a pageable source it never does",
                (TUTORIAL,),
                right("pageable source, copy then kernel", "pageable source"),
                "none of 100 tries",
            ),
            Claim("After a synchronize it does not", (OURS,), right("pinned source, written after synchronize")),
        ),
        sizes=(
            Size("side", 1024, "rows and columns of the tensor, of 4 bytes each"),
            Size("tries", 100, "how often it is tried", quick=20),
        ),
        cases=(
            "pinned source, copy then kernel",
            "pageable source, copy then kernel",
            "pinned source",
            "pageable source",
            "pinned source, written after synchronize",
        ),
        changed="the first two cases are the text's, with a kernel of a tenth the length; in the others the copy is "
        "behind the kernel, so that the host's write is certain to come first",
    ),
    Experiment(
        "E7",
        "threaded_pinning",
        "a dictionary of 1000 tensors of 4 MB: copied, pinned and copied, pinned by four threads and copied",
        (
            Claim(
                "To pin in other threads is faster than in the main one",
                (TUTORIAL,),
                judges.faster_in_threads,
                differs="threads pin while the first tensors are copied; a main thread that copies each tensor as soon "
                "as it has pinned it does so, too",
            ),
            Claim(
                "It is faster than plain copies, non_blocking or not",
                (TUTORIAL,),
                all_less(("pin in threads then copy", "non_blocking"), ("pin in threads then copy", "blocking")),
                differs="it depends on what four threads pin in a second, against what the driver stages",
            ),
            Claim(
                "TensorDict.to(non_blocking_pin=True) with four threads is the fastest of its ways",
                (TUTORIAL,),
                extreme(
                    f"{judges.TENSORDICT}pin in threads then copy",
                    tuple(f"{judges.TENSORDICT}{way}" for way in ("blocking", "non_blocking", "pin then copy")),
                    "less",
                ),
                "302 ms against 317 to 397 ms",
                "it depends on what four threads pin in a second; measured only where tensordict is installed",
            ),
            Claim(
                "Of small tensors, threads that pin gain less: they may cost more than they bring",
                (TUTORIAL,),
                judges.gains_less("small"),
                differs="it depends on what a thread costs to be given work",
            ),
            Claim(
                "Of few tensors, threads that pin gain less",
                (TUTORIAL,),
                judges.gains_less("few"),
                differs="it depends on what a thread costs to be given work",
            ),
        ),
        (
            Published("blocking", 396.8),
            Published("non_blocking", 317.4),
            Published("pin then copy", 320.5),
            Published("pin in threads then copy", 301.9),
        ),
        (
            Size("tensors", 1000, "how many tensors", quick=100),
            Size("floats", 1_000_000, OF_EACH),
            Size("threads", 4, "threads that pin"),
        ),
        ("blocking", "non_blocking", "pin then copy", "pin in threads then copy", judges.IN_TURN),
        "the text has TensorDict do it; here a dictionary and a pool of threads do the same, and TensorDict too where "
        "it is installed. To pin and copy in turn is ours. The text has no program for small tensors and few: here "
        "they are of 4 kB, and four",
    ),
)
