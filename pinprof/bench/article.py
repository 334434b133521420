"""E8, E9, E10, E14: training loops of an article on pinned memory in data loading, and of a question on prefetching."""

from pinprof.bench import article_judges as judges
from pinprof.bench.experiment import ANSWER, ARTICLE, OURS, PROCESSES, QUESTION, TUTORIAL, Claim, Experiment, Size
from pinprof.bench.judging import answers, exposed, hidden, more, never_waits, waits

OWN_STREAM = "the copy is on the stream of the kernels: the host runs ahead, the GPU copies and computes in turn (E10)"

STREAM_ORDER = "what is on one stream runs in turn, whether the host waits or not"

LOOPS = {
    "E8": Experiment(
        "E8",
        "loader",
        "training on a DataLoader with and without pin_memory=True and non_blocking=True, and its rate alone",
        (
            Claim(
                "DataLoader(pin_memory=True) makes the copies of its batches faster",
                (ARTICLE,),
                more("rate, pinned, non_blocking", "rate, pageable, non_blocking"),
            ),
            Claim(
                "Once a batch is pinned, a non_blocking copy is asynchronous: the host does not wait",
                (ARTICLE,),
                never_waits("waits, pinned, non_blocking"),
            ),
            Claim(
                "Unless it is pinned, non_blocking or not, the host waits",
                (OURS,),
                waits("waits, pageable, blocking", "waits, pageable, non_blocking"),
                differs="a small copy of pageable memory does not wait (E13)",
            ),
            Claim(
                "The way of copying can double the time of a step",
                (ARTICLE,),
                judges.make_or_break,
                differs="it depends on how long the copy is, compared with the rest of the step",
            ),
            Claim(
                "In a plain loop over the loader transfers so overlap with computation",
                (ARTICLE,),
                hidden("overlapped, pinned, non_blocking"),
                differs=OWN_STREAM,
            ),
            Claim(
                "Pinned batches and non_blocking take the copy off the step's critical path",
                (OURS,),
                judges.off_the_path,
                differs=OWN_STREAM,
            ),
        ),
        sizes=(
            Size("rows", 2048, "samples in a batch", of_text=False),
            Size("features", 3072, "numbers of 4 bytes in a sample", of_text=False),
            Size("workers", 2, "worker processes of the training steps"),
        ),
        cases=(*judges.COPIED, "no copy"),
        changed="the article shows a loader and a loop and prints nothing; the four ways, the larger batch, whose "
        "copy can be seen in the step, and the small network of one layer are ours. The loop as it is: E14",
    ),
    "E9": Experiment(
        "E9",
        "custom_batch",
        "what is pinned: tensors, and a loader's batches, of a class of one's own with pin_memory() or without",
        (
            Claim(
                "A batch of a custom type is handed back unpinned",
                (ARTICLE,),
                answers({"pinned, without pin_memory()": False}),
            ),
            Claim(
                "With a pin_memory() method of its own, the batch is pinned",
                (ARTICLE,),
                answers({"pinned, with pin_memory()": True}),
            ),
            Claim(
                "Elements of a custom type inside a list are also left unpinned",
                (ARTICLE,),
                answers({"pinned, elements without pin_memory()": False}),
            ),
            Claim(
                "Tensors, and lists and dictionaries of them, DataLoader(pin_memory=True) pins by itself",
                (ARTICLE,),
                answers({"pinned, a list of tensors": True, "pinned, a dictionary of tensors": True}),
            ),
            Claim(
                "A loader with workers pins in a thread of its own, so that the main one is not held",
                (TUTORIAL,),
                judges.shown_with(
                    answers({"pinned by a thread of its own, with workers": True}),
                    "pinned by a thread of its own, without workers",
                ),
                differs="without workers torch starts no such thread: the main one pins",
            ),
            Claim(
                "The memory of a tensor is pageable unless something else is asked for",
                (TUTORIAL, ARTICLE, PROCESSES),
                answers({"pinned, a tensor as it is made": False}),
            ),
            Claim(
                "pin_memory() returns a copy in pinned memory, and constructors can make tensors there",
                (TUTORIAL, ARTICLE, PROCESSES),
                judges.shown_with(
                    answers(
                        {
                            "pinned, by pin_memory()": True,
                            "a copy of the same values, by pin_memory()": True,
                            "pinned, what was given to pin_memory()": False,
                            "pinned, made with pin_memory=True": True,
                        }
                    ),
                    "no copy, by pin_memory() of a pinned tensor",
                ),
            ),
        ),
        sizes=(Size("rows", 64, "samples in a batch", of_text=False),),
        cases=("pinned, without pin_memory()", "pinned, with pin_memory()"),
        changed="the article's batches have 2 rows of 5 numbers; here they are large enough to be seen in a trace. Its "
        "loader has no workers; the one that pins in a thread is ours",
    ),
    "E10": Experiment(
        "E10",
        "prefetching",
        "the plain loop with non_blocking=True against a prefetcher that copies the next batch on a side stream",
        (
            Claim(
                "To overlap, copies must be from pinned memory",
                (QUESTION, ANSWER),
                judges.needs_pinned,
                differs="the call of a pageable copy holds the host: only kernels that were launched before it can "
                "overlap the copy",
            ),
            Claim(
                "To overlap, copies must be non_blocking",
                (QUESTION, ANSWER),
                judges.needs_non_blocking,
                differs="a blocking copy holds the host, but overlaps kernels that were launched before it; what the "
                "copy does need is a side stream, which the plain loop lacks",
            ),
            Claim(
                "The images are fully transferred before the kernels of model(images) run",
                (QUESTION,),
                answers({"ended before the next kernel, plain loop": True}),
                differs="a kernel that is on another stream than the copy may begin before it has ended",
            ),
            Claim(
                "model(images) is a synchronization point: the host waits until the batch is on the GPU",
                (QUESTION,),
                waits("waits, plain loop"),
                differs="the kernels wait on the stream behind the copy; the host does not",
            ),
            Claim(
                "The next batch's copy is not requested before the output is computed",
                (QUESTION,),
                judges.waits_for_the_output,
                differs="the host launches and goes on: it runs ahead of the GPU",
            ),
            Claim(
                "So the plain loop does not prefetch: no copy overlaps the kernels of the batch before",
                (QUESTION,),
                exposed("overlapped, plain loop"),
                differs=STREAM_ORDER,
            ),
            Claim("model(images) is not a synchronization point", (ANSWER,), never_waits("waits, plain loop")),
            Claim(
                "Copies and computation are handled by different parts of the GPU",
                (ANSWER,),
                hidden("overlapped, prefetcher"),
                differs="both run at once only on streams of their own",
            ),
            Claim(
                "Pinned memory and non_blocking can be used to overlap transfers with computation",
                (ARTICLE, ANSWER),
                hidden("overlapped, prefetcher"),
                differs="they can, from a side stream: it depends on what else the GPU has to do",
            ),
            Claim(
                "A prefetcher on a side stream hides the copy and makes the step shorter",
                (OURS,),
                judges.prefetched,
                differs="it depends on how long the copy is, compared with the step",
            ),
        ),
        sizes=(
            Size("rows", 4096, "samples in a batch", of_text=False),
            Size("features", 3072, "numbers of 4 bytes in a sample", of_text=False),
        ),
        cases=(
            "plain loop",
            "prefetcher",
            "prefetcher, pageable",
            "prefetcher, pageable, kernels first",
            "prefetcher, blocking",
            "no copy",
        ),
        changed="the question shows the loop of PyTorch's ImageNet example; here it trains a small network, on batches "
        "that are made beforehand. The prefetchers are ours",
    ),
    "E14": Experiment(
        "E14",
        "training_loop",
        "a training loop with asynchronous copies, a penalty over all parameters, and two .item() in every step",
        (
            Claim(
                "In this loop, shown for it, the asynchronous copies overlap with computation",
                (ARTICLE,),
                hidden("overlapped, as written"),
                differs=OWN_STREAM,
            ),
            Claim(
                "Its copies and launches return at once: not the host, the kernels wait for the data",
                (ARTICLE,),
                never_waits("waits, without .item()"),
            ),
            Claim("Its two .item() make the host wait in every step", (OURS,), waits("waits, as written")),
            Claim(
                "With batches of 32, the two .item() calls make the step longer",
                (OURS,),
                judges.cost_time(""),
                differs="a host that is late anyway loses little by waiting: the step is many small kernels",
            ),
            Claim(
                "With larger batches, they make it longer",
                (OURS,),
                judges.cost_time(", larger"),
                differs="it depends on how long the GPU stands still until the host has launched again",
            ),
            Claim(
                "The two .item() undo the host's lead: it queues the next copies only when the GPU has finished",
                (OURS,),
                judges.undo_the_lead,
                differs="a host that is late anyway has no lead to lose",
            ),
        ),
        sizes=(
            Size("rows", 32, "samples in a batch"),
            Size("larger", 512, "samples in a larger batch", of_text=False),
            Size("features", 3072, "numbers of 4 bytes in a sample", of_text=False),
            Size("workers", 2, "worker processes of the loader"),
        ),
        cases=("as written", "without .item()", "as written, larger", "without .item(), larger"),
        changed="the network is a small one of ours, as the article has none; the batches are made beforehand, so that "
        "the loader keeps up",
    ),
}
