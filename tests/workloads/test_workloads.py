"""Every workload runs; what each costs is measured on a GPU and kept with its recordings."""

import multiprocessing
from collections.abc import Iterator

import pytest
import torch

from pinprof.workloads import WORKLOADS, Workload

SMALL = 1 / 64

# Python 3.12 and later warn of every fork in a process with threads; the loaders' workers are such forks.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

each_workload = pytest.mark.parametrize("known", WORKLOADS, ids=lambda known: known.name)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@each_workload
def test_two_steps_on_the_cpu(known: Workload) -> None:
    with known.build(torch.device("cpu"), SMALL) as step:
        step()
        step()
    assert multiprocessing.active_children() == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@each_workload
def test_two_steps_on_the_gpu(known: Workload) -> None:
    with known.build(torch.device("cuda")) as step:
        step()
        step()
        torch.cuda.synchronize()
