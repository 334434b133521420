"""Tables in terminals of any width: numbers stay whole, and so do names."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import RenderableType
from rich.text import Text

from pinprof.report.terminal import bullet, fact, hanging, laid_out, shorten_words, table, unwrapped

PLACE = "pinprof/workloads/loaders.py:45 (step)"


def laid(width: int) -> str:
    rows = table("cause", "in", "stall", "GPU idle after")
    rows.add_row("pageable_copy", PLACE, "10.6 ms", "549 µs")
    return laid_out([rows], width=width, color=False)


def test_texts_take_lines_so_that_numbers_stay_whole() -> None:
    text = laid(70)
    assert "10.6 ms   549 µs" in text
    assert "GPU idle after" not in text  # a heading of several words may take several lines
    assert "pinprof/workloads/loaders.py:45 " in text
    assert PLACE not in text


def test_a_path_loses_its_beginning_and_a_name_its_middle() -> None:
    assert "…/workloads/loaders.py:45 " in laid(66)
    assert shorten_words(f"at {'a' * 99} and b/{'c' * 99}.py:7", 10) == f"at aaaaa…aaaa and b/{'c' * 99}.py:7"
    assert shorten_words("a/b/c/d.py:7", 10) == "…/c/d.py:7"


@pytest.mark.parametrize("width", range(40, 100))
def test_no_column_is_cut_off_for_a_long_word_in_another(width: int) -> None:
    rows = table("ranks", "finding", "cost per step", "fixing it saves", text_columns=2)
    rows.add_row("all ranks", "`torch.cuda.synchronize()` waits for the GPU", "183 µs", "51.9 µs")
    text = laid_out([rows], width=width, color=False)
    assert "51.9 µs\n" in text
    assert "`torch.cuda.synchronize()`" in text or width < 64  # there a part of it is left out
    assert max(map(len, text.splitlines())) <= width


WORDS = st.lists(st.text("kernel_", min_size=1, max_size=40), min_size=1, max_size=6).map(" ".join)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3), st.integers(1, 5), st.integers(60, 200))
def test_no_width_cuts_a_number_or_its_title(texts: list[tuple[str, str]], numbers: int, width: int) -> None:
    titles = ["mean", "of the GPU's work", "count", "host waits", "without profiler"][:numbers]
    rows = table("kernel", "launched by", *titles)
    for row, cells in enumerate(texts):
        rows.add_row(*cells, *(f"{row}{number}.5 ms" for number in range(numbers)))
    shown = laid_out([rows], width=width, color=False)
    assert max(map(len, shown.splitlines())) <= width
    assert all(f" {row}{number}.5 ms" in shown for row in range(len(texts)) for number in range(numbers))
    assert all(word in shown for title in titles for word in title.split())


def test_a_line_that_people_copy_is_never_broken() -> None:
    path = f"{'folder/' * 20}trace.json.gz -> other file.json.gz"
    assert laid_out([unwrapped(path, "bold")], width=40, color=False) == f"{path}\n"


@pytest.mark.parametrize("width", range(40, 60))
@pytest.mark.parametrize("made", [Text, bullet, lambda text: fact("1", text)])
def test_no_line_ends_between_a_number_and_its_unit(width: int, made: Callable[[str], RenderableType]) -> None:
    text = "a step takes 12.7 ms, of which copies alone take 25 % (2.61 ms) at 55.0 GB/s of 4.00 MiB in 5 steps"
    shown = laid_out([made(text)], width=width, color=False)
    assert text in " ".join(shown.split())
    assert not [line for line in shown.splitlines() if line.split()[0].strip("(),") in {"ms", "%", "GB/s", "MiB"}]


def test_of_code_that_is_longer_than_a_line_no_letter_is_missing() -> None:
    code = 'torch.set_float32_matmul_precision("high")'
    shown = laid_out([hanging(Text("   → "), Text(code))], width=40, color=False)
    assert code in "".join(shown.split())
