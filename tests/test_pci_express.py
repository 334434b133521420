"""Links by what the driver reports and by the names of GPUs."""

import pytest

from pinprof.pci_express import link_of_gpus, pcie


@pytest.mark.parametrize(
    ("generation", "lanes", "rate"), [(5, 16, 63.0), (4, 16, 31.5), (3, 8, 7.88), (2, 16, 8.0), (6, 16, 121.0)]
)
def test_a_link_carries_its_transfers_times_lanes_less_the_encoding(generation: int, lanes: int, rate: float) -> None:
    link = pcie(generation, lanes)
    assert link is not None
    assert link.theoretical == pytest.approx(rate, rel=2e-3)
    assert link.usual < link.theoretical


@pytest.mark.parametrize(("generation", "lanes"), [(None, None), (5, None), (None, 16), (99, 16), (5, 0)])
def test_a_link_that_is_not_reported_is_none(generation: int | None, lanes: int | None) -> None:
    assert pcie(generation, lanes) is None


@pytest.mark.parametrize(
    ("name", "link"),
    [
        *(("NVIDIA H200", "PCIe 5.0 x16"), ("NVIDIA H100 80GB HBM3", "PCIe 5.0 x16")),
        *(("NVIDIA B200", "PCIe 5.0 x16"), ("NVIDIA GeForce RTX 5090", "PCIe 5.0 x16")),
        *(("AMD Instinct MI300X", "PCIe 5.0 x16"), ("NVIDIA A100-SXM4-80GB", "PCIe 4.0 x16")),
        *(("NVIDIA A10G", "PCIe 4.0 x16"), ("NVIDIA L4", "PCIe 4.0 x16"), ("NVIDIA L40S", "PCIe 4.0 x16")),
        *(("NVIDIA RTX A6000", "PCIe 4.0 x16"), ("NVIDIA RTX 5000 Ada Generation", "PCIe 4.0 x16")),
        *(("NVIDIA RTX 2000 Ada Generation", "PCIe 4.0 x8"), ("NVIDIA GeForce RTX 4090", "PCIe 4.0 x16")),
        *(("AMD Instinct MI250X", "PCIe 4.0 x16"), ("Tesla V100-SXM2-16GB", "PCIe 3.0 x16")),
        *(("Tesla T4", "PCIe 3.0 x16"), ("Quadro RTX 5000", "PCIe 3.0 x16"), ("NVIDIA TITAN RTX", "PCIe 3.0 x16")),
        ("NVIDIA GeForce GTX 1080 Ti", "PCIe 3.0 x16"),
    ],
)
def test_the_link_is_known_by_the_name_of_the_gpu(name: str, link: str) -> None:
    known_link = link_of_gpus([name, name])
    assert known_link is not None
    assert known_link.name == link


@pytest.mark.parametrize("name", ["NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA H1000", "Another GPU", "", None])
def test_the_link_of_other_gpus_is_not(name: str | None) -> None:
    assert link_of_gpus([name]) is None


def test_gpus_of_different_links_have_none_together() -> None:
    assert link_of_gpus(["NVIDIA H100", "NVIDIA A100"]) is None
