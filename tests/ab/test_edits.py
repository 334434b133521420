"""Which lines two versions have changed, and how likely it is that the host is longer in them by chance."""

from pathlib import Path

import pytest
from host_builder import host_profile

from pinprof.ab.edits import Code, chance_of, find_edits, most_sampled, samples_in
from pinprof.analyses.host_samples import HostSums, measure_host

OLD = "import torch\nfor x in data:\n    step(x)\n    log(x)\n"
NEW = "import torch\n\nfor x in data:\n    step(x)\n    check(x)\n    log(x)\n"


def code(folder: Path, **texts: str) -> Code:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return Code(folder, tuple(str(folder / f"{name}.py") for name in texts))


def host(*stacks: tuple[int, str]) -> HostSums:
    sums = measure_host(host_profile(*stacks))
    assert sums is not None
    return sums


def test_lines_that_moved_are_not_changed(tmp_path: Path) -> None:
    before, after = code(tmp_path / "a", train=OLD, same=OLD), code(tmp_path / "b", train=NEW, same=OLD)
    assert [sorted(edit.after) for edit in find_edits(before, after)] == [[("train.py", 2)], [("train.py", 5)]]
    assert after.line("train.py", 5) == "check(x)"
    assert find_edits(before, before) == []


def test_scripts_of_two_names_are_compared_with_each_other(tmp_path: Path) -> None:
    """In one folder, both import the same helper."""
    both = code(tmp_path / "a", train=OLD, other=NEW, helper=OLD)
    before, after = (Code(both.folder, (both.files[number], both.files[2])) for number in (0, 1))
    assert [sorted(edit.after) for edit in find_edits(before, after)] == [[("other.py", 2)], [("other.py", 5)]]


def test_what_only_one_version_has_is_changed_as_a_whole(tmp_path: Path) -> None:
    before, after = code(tmp_path / "a", train=OLD), code(tmp_path / "b", train=OLD, one=OLD, two=OLD)
    assert sorted(len(edit.after) for edit in find_edits(before, after)) == [4, 4]
    assert all(not edit.before for edit in find_edits(before, after))
    gone = Code(tmp_path, (str(tmp_path / "gone.py"),))
    assert find_edits(gone, gone) == []


def test_samples_below_a_line_belong_to_it() -> None:
    sums = host(
        (5, "train.py:5:main > torch/nn.py:9:forward"), (3, "train.py:5:main > help.py:2:work"), (9, "train.py:6:main")
    )
    line = frozenset({("train.py", 5)})
    assert samples_in(line, sums) == 8
    assert samples_in(frozenset({("train.py", 7)}), sums) == 0
    assert most_sampled(line | {("train.py", 4)}, sums) == ("train.py", 5)
    assert most_sampled(frozenset(), sums) is None


def test_five_samples_against_none_are_no_chance() -> None:
    assert chance_of(5, 0, 1 / 2) == 1 / 32
    assert chance_of(3, 0, 1 / 2) > 0.05
    assert chance_of(8, 0, 3 / 4) == pytest.approx(0.75**8)
    assert chance_of(0, 5, 1 / 2) == 1
    assert chance_of(330, 270, 1 / 2) == pytest.approx(0.0079, abs=0.0005)  # by the normal distribution
