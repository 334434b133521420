"""Faults are put exactly where they belong, and a patch is judged by the lines that it changes."""

import json
import shutil
from pathlib import Path

import pytest

from scripts.examination.judged import judge_patch
from scripts.examination.planted import Planted, plant, planted_texts
from scripts.examination.planting import (
    UNSEEN_VARIANTS,
    VARIANTS,
    Edit,
    Fault,
    PlaceError,
    Variant,
    after,
    before,
    edited,
    swap,
    variants_in,
)
from scripts.examination.programs import UNSEEN, program

SCRIPT = """import torch
for epoch in range(3):
    for x in loader:
        loss = step(x)
        show(loss)
    show(loss)
"""


def test_an_edit_finds_its_place_in_a_block_and_keeps_its_depth() -> None:
    lines, at = edited(SCRIPT.split("\n"), after("show(loss)", "if bad(loss):\n    break", "for x in loader"))
    assert lines[5:7] == ["        if bad(loss):", "            break"]
    assert at == 5


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (before("show(loss)", "pass"), "2 lines"),
        (before("show(loss)", "pass", "for y in"), "0 lines"),
        (swap("loss = step", "model", "net"), "not exactly once"),
    ],
)
def test_an_edit_fails_where_its_place_is_not_there_once(edit: object, why: str) -> None:
    with pytest.raises(PlaceError, match=why):
        edited(SCRIPT.split("\n"), edit)  # type: ignore[arg-type]


def test_a_table_has_programs_with_faults_and_sound_ones() -> None:
    text = """# a comment
faults one mnist
- either none a kind :: why
  swap x = :: a ::  b\\nc :: in def f( :: file other.py
  after y :: (nothing)

sound two vae
"""
    edits = (Edit("swap", "x =", " b\nc", "def f(", "a", "other.py"), after("y", ""))
    assert variants_in(text) == (
        Variant("one", "mnist", (Fault("a kind", edits, "either", "", "why"),)),
        Variant("two", "vae", sound=True),
    )


@pytest.mark.parametrize("line", ["- mended PIN201 x", "- mend PIN201 x\n  behind a :: b"])
def test_a_line_of_a_table_that_nobody_understands_is_an_error(line: str) -> None:
    with pytest.raises(PlaceError, match=r"'(mended|behind)' is not"):
        variants_in(f"faults one mnist\n{line}\n")


def test_faults_are_found_again_below_later_edits(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    faults = tuple(
        Fault("a", (edit,), "mend") for edit in (after("loss =", "read(loss)"), before("import", "import os"))
    )
    _, rows = planted_texts(Variant("name", "mnist", faults), tmp_path, "train.py")
    assert [(row["line"], row["code"]) for row in rows] == [(6, "read(loss)"), (1, "import os")]


def test_the_variants_are_as_many_as_they_should_be() -> None:
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)
    assert sum(not variant.sound for variant in VARIANTS) >= 32
    assert sum(variant.sound for variant in VARIANTS) >= 10
    assert all(program(variant.program).gpus == 1 and len(variant.faults) <= 3 for variant in VARIANTS)
    assert all(fault.outcome == "same" for variant in VARIANTS if variant.sound for fault in variant.faults)


def test_no_program_of_the_held_out_part_is_among_those_that_fix_was_made_with() -> None:
    names = [variant.name for variant in (*VARIANTS, *UNSEEN_VARIANTS)]
    assert len(set(names)) == len(names)
    seen = {program(variant.program).repository for variant in VARIANTS}
    assert {variant.program for variant in UNSEEN_VARIANTS} == {program.name for program in UNSEEN}
    assert not seen & {program.repository for program in UNSEEN}
    assert len({program.repository for program in UNSEEN}) >= 8


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_patch_is_judged_by_what_it_changes(tmp_path: Path) -> None:
    clone = tmp_path / "clones/examples/mnist"
    clone.mkdir(parents=True)
    (clone / "main.py").write_text(SCRIPT)
    faults = (
        Fault("read", (after("loss = step(x)", "total += loss.item()"),), "mend"),
        Fault("near", (before("import torch", "import os"),), "same"),
    )
    planted = plant(Variant("name", "mnist", faults), tmp_path / "clones", tmp_path / "out", data=False)
    assert isinstance(planted, Planted)
    assert json.loads(planted.truth_file.read_text())["faults"][0]["line"] == 6
    assert judge_patch(planted, b"")["faults"][0]["result"] == "missed"
    head = "--- a/mnist/main.py\n+++ b/mnist/main.py\n"
    patch = head + "@@ -6,2 +6,2 @@\n-{0}total += loss.item()\n+{0}total += loss\n {0}show(loss)\n"
    row = judge_patch(planted, patch.format(" " * 8).encode())
    assert [fault["result"] for fault in row["faults"]] == ["mended", "left"]
    assert row["applies"] is True
    wrong = head + "@@ -1,2 +1,1 @@\n-import os\n import torch\n"
    assert judge_patch(planted, wrong.encode())["faults"][1]["result"] == "FALSE"
    assert judge_patch(planted, wrong.replace("os", "sys").encode())["applies"] is False
