"""What makes the samples of a data set, besides torch and torchvision."""

from functools import partial
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from pinprof.program.datasets import makers_of

TENSORS = TensorDataset(torch.zeros(8, 2))
HERE = __name__


class Own(Dataset[Any]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return next(iter(range(index, 8)))  # whatever reading does not know


class Crop:
    def __call__(self, image: object) -> object:
        return image


def flip(image: object) -> object:
    return image


def vision(kind: str, *, module: str = "torchvision.datasets.mnist", **holds: object) -> Any:
    """Return a thing of a class of torchvision, which need not be installed, that holds these."""
    bases = (Dataset,) if "datasets" in module else ()
    dataset = type(kind, bases, {"__module__": module, "__call__": flip})()
    vars(dataset).update(holds)
    return dataset


transform = partial(vision, module="torchvision.transforms.transforms")


@pytest.mark.parametrize(
    ("dataset", "foreign"),
    [
        (TENSORS, ()),
        (Subset(ConcatDataset([TENSORS, TENSORS]), [0]), ()),
        (vision("MNIST", transform=None, data=torch.zeros(3), root="."), ()),
        (vision("MNIST", transform=transform("Compose", transforms=[transform("ToTensor")])), ()),
        (
            vision("MNIST", transform=transform("Compose", transforms=[transform("ToTensor"), Crop()])),
            (f"{HERE}.Crop",),
        ),
        (vision("MNIST", target_transform=flip), (f"{HERE}.flip",)),
        (vision("MNIST", transform=transform("Lambda", lambd=lambda image: image)), (f"{HERE}.<lambda>",)),
        (vision("MNIST", transform=partial(flip)), ("functools.partial",)),
        (Subset(Own(), [0, 1]), (f"{HERE}.Own",)),
        (Own(), (f"{HERE}.Own",)),
        (vision("LSUN", module="torchvision.datasets.lsun"), ("torchvision.datasets.lsun.LSUN",)),
        (vision("Own", module="torchvision_own.datasets"), ("torchvision_own.datasets.Own",)),
        ([1, 2, 3], ()),
        ([Crop()], ("builtins.list",)),
    ],
)
def test_what_is_not_known_is_named(dataset: object, foreign: tuple[str, ...]) -> None:
    assert makers_of(dataset).foreign == foreign


@pytest.mark.parametrize(
    ("dataset", "fixed"),
    [
        (TENSORS, True),
        (
            vision("MNIST", transform=transform("Compose", transforms=[transform("Resize"), transform("ToTensor")])),
            True,
        ),
        (vision("MNIST", transform=transform("Compose", transforms=[transform("RandomCrop")])), False),
        (Subset(vision("CIFAR10", transform=transform("ColorJitter")), [0]), False),
        (vision("MNIST", transform=transform("ToTensor"), target_transform=flip), False),
        (vision("FakeData", module="torchvision.datasets.fakedata"), False),
        (Own(), False),
    ],
)
def test_samples_are_fixed_where_nothing_draws_random_numbers(dataset: object, *, fixed: bool) -> None:
    assert makers_of(dataset).fixed == fixed


def test_what_holds_itself_or_very_much_ends() -> None:
    around = transform("Compose", transforms=[])
    around.transforms.append(around)
    assert makers_of(vision("MNIST", transform=around)) == ((), True)
    many = transform("Compose", transforms=[transform("ToTensor") for _ in range(300)])
    assert makers_of(vision("MNIST", transform=many)) == (("more",), False)
    deep = transform("ToTensor")
    for _ in range(8):
        deep = transform("Compose", transforms=[deep])
    assert makers_of(vision("MNIST", transform=deep)) == (("more",), False)
