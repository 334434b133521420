"""What to do about known functions that take the host long."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

ANY_FUNCTION: Final = frozenset[str]()


class Remedy(NamedTuple):
    """What spares the time of some functions."""

    packages: frozenset[str]
    functions: frozenset[str]  # by their names; `ANY_FUNCTION` for all of these packages
    advice: str
    is_in_c: bool = False  # whether no Python runs in them: a sample then shows the line that calls them


def _remedy(packages: str, functions: str, advice: str, *, is_in_c: bool = False) -> Remedy:
    return Remedy(frozenset(packages.split()), frozenset(functions.split()), advice, is_in_c)


REMEDIES: Final = (
    _remedy("time", "sleep", "It sleeps: wait for the event itself, or sleep in another thread.", is_in_c=True),
    _remedy(
        "tqdm", "", "Update the progress bar less often: tqdm(..., mininterval=1), and set_postfix() every N steps."
    ),
    _remedy("logging loguru mlflow rich tensorboard tensorboardX wandb", "", "Log every N steps."),
    _remedy("torch", "add_scalar add_scalars add_histogram add_image", "Log every N steps."),
    _remedy("json orjson ujson", "", "Write JSON every N steps, and read it in a DataLoader's workers."),
    _remedy(
        "PIL cv2 imageio skimage turbojpeg",
        "",
        "Read and decode images in a DataLoader's workers (num_workers), not in the loop.",
        is_in_c=True,
    ),
    _remedy(
        "torchvision",
        "decode_image decode_jpeg decode_png read_image pil_loader default_loader",
        "Read and decode images in a DataLoader's workers (num_workers), not in the loop.",
    ),
    _remedy(
        "numpy scipy",
        "",
        "numpy computes on the host: compute with tensors on the GPU, or in a DataLoader's workers.",
        is_in_c=True,
    ),
    _remedy("torch", "train eval", "Call train() and eval() only where the mode changes: each call walks all modules."),
    _remedy(
        "torch",
        "state_dict",
        "Call state_dict() only to save a checkpoint; elsewhere keep a list of the tensors, made once: it walks all "
        "modules.",
    ),
    _remedy(
        "torch",
        "zero_grad",
        "Keep a list of the parameters, made once, and set the grad of each to None: zero_grad() of a model walks all "
        "modules first.",
    ),
    _remedy(
        "torch",
        "clip_grad_norm_ clip_grad_value_",
        "Give it a list of the parameters, made once, and foreach=True: it walks all modules for the generator of "
        "model.parameters().",
    ),
    _remedy(
        "torch",
        "_init_group",
        "torch.compile of optimizer.step spares it: each step gathers parameters, gradients and states anew.",
    ),
    _remedy(
        "",
        "parameters named_parameters modules named_modules children named_children buffers named_buffers "
        "num_parameters",
        "Keep what it returns, as in parameters = list(model.parameters()), from before the loop: it walks modules.",
    ),
    _remedy(
        "",
        "floating_point_ops numel signature get_type_hints is_available",
        "What it returns is the same in each step of most programs: call it once before the loop and keep the result.",
    ),
    _remedy("copy", "deepcopy", "Make the copy once before the loop, and copy values into it: copy_() for tensors."),
)
"""The first that fits holds; one without packages fits functions of this name in any library."""
IMPORTED_AS: Final = {"np": "numpy", "Image": "PIL"}  # names that programs give to modules
CALL_IN_LINE = re.compile(r"\b((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)\(")


def remedy_of(package: str, called: Sequence[str], *, in_c: bool = False) -> str:
    """Return what spares the time of a library's functions, the outer one first; nothing where that is not known."""
    names = {name.rpartition(".")[2] for name in called}
    for remedy in REMEDIES:
        of_package = package in remedy.packages if remedy.packages else bool(package)
        if of_package and (not remedy.functions or names & remedy.functions) and remedy.is_in_c >= in_c:
            return remedy.advice
    return ""


def remedy_of_line(line: str) -> str:
    """Return what spares the functions in C that a line of the program calls, where there is one such advice."""
    found = set()
    for dotted in CALL_IN_LINE.findall(line.partition("#")[0]):
        root, _, name = dotted.partition(".")
        package = "time" if dotted == "sleep" else IMPORTED_AS.get(root, root)
        found.add(remedy_of(package, (name or root,), in_c=True) if name or dotted == "sleep" else "")
    found.discard("")
    return found.pop() if len(found) == 1 else ""
