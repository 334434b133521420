"""README and guides: they are as they should be, their links lead somewhere, and their commands and code run."""

import ast
import re
import shutil
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
import torch
from blocks import GUIDES, README, Block, blocks, commands, ours, parse
from command_line import invoke
from recordings import ROOT, TRACES
from torch.utils.data import DataLoader

import pinprof
from pinprof.cli.explain import API, api_guide
from pinprof.report.explain import GUIDE_ORDER, guide_to_text, guides, to_list
from pinprof.report.schema import DOCUMENTS
from pinprof.rules.search import RULES

TEXTS = [README, *GUIDES]
MOST_LINES, WIDEST_CODE = 200, 88
PYTHON = {"PYTHONPATH=.", "python"}
OTHERS = {"cd", "eval", "export", "git", "gzip", "head", "install", "jq", "pip", "source", "ssh"}
"""Commands that are not ours."""
NOT_HERE = ("bench", "run")
"""Our commands that need a GPU: their options are looked at."""

each_text = pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)


# ---------------------------------------------------------------- form


def test_the_guides_are_those_that_are_shown() -> None:
    assert sorted(GUIDE_ORDER) == sorted(path.stem for path in GUIDES)


@pytest.mark.parametrize("guide", guides(), ids=lambda guide: guide.name)
def test_a_guide_has_a_title_a_summary_and_a_size_that_can_be_read(guide: Any) -> None:
    lines = guide.text.splitlines()
    assert re.fullmatch(r"# \S.*", lines[0])
    assert lines[1] == lines[3] == ""
    assert guide.summary.endswith(".")
    assert len(guide.summary) <= 110
    assert len(lines) <= MOST_LINES


def test_the_skill_begins_as_skills_do_and_is_shown_without_that() -> None:
    text = (ROOT / "pinprof" / "guides" / "SKILL.md").read_text()
    front = re.match(r"---\nname: pinprof\ndescription: (.{80,1024})\n---\n# ", text)
    assert front
    assert ": " not in front[1], "which YAML would take for a name"
    assert next(guide for guide in guides() if guide.name == "SKILL").text == text[front.end() - 2 :]


@each_text
def test_code_fits_a_terminal(path: Path) -> None:
    for block in blocks(path):
        assert max(map(len, block.text.splitlines())) <= WIDEST_CODE or block.language == "text", block.text


@pytest.mark.slow
def test_a_guide_looks_plain_in_a_terminal() -> None:
    shown = {guide.name: guide_to_text(guide, width=90) for guide in guides()}
    for text in shown.values():
        assert max(map(len, text.splitlines())) <= 90
        assert not re.search(r"```|\]\(|\n\n\n|\*\*|<!--", text)
    assert shown["what-if"].startswith("What if: predict a change, then prove it\n\nWhat the step would take")
    assert "\n    pinprof whatif trace.json.gz --pin --non-blocking" in shown["what-if"]
    assert "another question (pinprof explain accuracy)" in " ".join(shown["what-if"].split())
    assert "\x1b[1m" in guide_to_text(guides()[0], width=90, color=True)
    assert to_list(guides(), width=90).count("\n") >= len(GUIDE_ORDER)


SAMPLE = re.compile(r"<!-- output of pinprof ([^\n]*) -->\n```text\n(.*?)```", re.DOTALL)


SHOWN = [(path, shown[1]) for path in TEXTS for shown in SAMPLE.finditer(path.read_text())]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "words"), SHOWN, ids=[f"{path.stem}: {words}" for path, words in SHOWN])
def test_a_text_shows_what_pinprof_prints(
    path: Path, words: str, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    """It shows as many of the first lines as it has."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "88")
    text = path.read_text()
    shown = next(sample for sample in SAMPLE.finditer(text) if sample[1] == words)
    for file in filter(Path.is_file, map(Path, words.split())):
        file.touch()  # a checkout may write a source after the trace, which then does not show its lines
    printed = invoke(*words.split()).stdout.splitlines(keepends=True)
    sample = "".join(printed[: shown[2].count("\n")]).rstrip() + "\n"
    if pytestconfig.getoption("--update-golden"):
        path.write_text(text := text[: shown.start(2)] + sample + text[shown.end(2) :])
    assert len(printed) > 1
    assert sample in text


def test_the_readme_lists_the_guides() -> None:
    listed = re.findall(r"\[([\w-]+)\]\(pinprof/guides/([\w-]+)\.md\)", README.read_text().split("## Guides")[1])
    assert listed == [(name, name) for name in GUIDE_ORDER]


def test_the_guide_on_waits_names_every_cause_with_its_rule() -> None:
    """Those that PIN213 is for are of an environment variable, not of code."""
    text = (ROOT / "pinprof" / "guides" / "hidden-synchronizations.md").read_text()
    rule_of_cause = {
        (cause, rule)
        for _, causes, rules in re.findall(r"^\| (.*) \| (.*) \| (PIN.*) \|$", text, re.MULTILINE)
        for cause in re.findall(r"`(\w+)`", causes)
        for rule in re.findall(r"PIN\d+", rules)
    }
    known = {(cause, rule.id) for rule in RULES for cause in rule.causes if rule.id != "PIN213"}
    assert known <= rule_of_cause
    assert {cause for cause, _ in rule_of_cause} == {cause for cause, _ in known}


# ---------------------------------------------------------------- links

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|src=\"([^\"]+)\"")
NAMED = re.compile(r"`?pinprof (explain|schema) ([A-Za-z][\w-]*)")
HOSTS = {"filesystem-spec.readthedocs.io", "github.com", "hta.readthedocs.io", "ui.perfetto.dev"}
"""Where links lead outside; no test opens them, so a new one is looked at before it stands here."""
PLACEHOLDERS = {"TOPIC", "RULE", "NAME", "all"}


def links(path: Path) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [link[1] or link[2] for link in LINK.finditer(text)]


def anchors(path: Path) -> set[str]:
    """Return the anchors of a text's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


DOCUMENTATION = [*TEXTS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(TRACES.rglob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTATION, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for link in links(path):
        url = urlsplit(link)
        if url.scheme:
            assert url.scheme == "https", link
            assert url.netloc in HOSTS, link
            continue
        target = path.parent / url.path if url.path else path
        assert target.exists(), link
        assert not url.fragment or url.fragment in anchors(target), link


def test_what_pinprof_says_to_explain_can_be_explained() -> None:
    known = {"explain": {*GUIDE_ORDER, API, *(rule.id for rule in RULES)}, "schema": set(DOCUMENTS)}
    sources = [path for path in (ROOT / "pinprof").rglob("*") if path.suffix in {".py", ".js", ".json", ".md"}]
    for path in (*sources, README, ROOT / "CONTRIBUTING.md"):
        for command, name in NAMED.findall(path.read_text()):
            assert name in known[command] or name in PLACEHOLDERS, f"{path}: pinprof {command} {name}"


@pytest.mark.parametrize("topic", ["PIN201", "pin201", "what-if", "API"])
def test_a_topic_is_found_by_its_name(topic: str) -> None:
    assert invoke("explain", topic).exit_code == 0


def test_the_api_has_every_public_name_with_its_arguments_and_a_text() -> None:
    text = api_guide().text
    assert all(re.search(rf"^(- `{name}[(`]|## {name}$)", text, re.MULTILINE) for name in pinprof.__all__)
    assert "- `kernels`: " in text
    assert "- `whatif(scenario=None, **changes)`: " in text
    assert "- `rank(number)`: " in text
    assert text.count("- `save(") == 1  # of all reports, listed with the first
    assert not re.search(r"`: ?$", text, re.MULTILINE)


# ---------------------------------------------------------------- commands


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a working folder that has the files that the texts name."""
    copies = {
        "trace": "loss_item_host_work.stack",
        "before": "pageable_blocking.stack",
        "after": "prefetch.stack",
        "main": "loss_item",
        "branch": "loss_item",
        **{f"run/rank{rank}": f"ranks/averaged_loss.rank{rank}.before" for rank in (0, 1)},
    }
    (tmp_path / "run").mkdir()
    for name, recording in copies.items():
        shutil.copy(TRACES / f"{recording}.json.gz", tmp_path / f"{name}.json.gz")
    shutil.copy(TRACES / "bench.json", tmp_path)
    (tmp_path / "traces").symlink_to(TRACES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PINPROF_MACHINE", raising=False)
    return tmp_path


def run(words: tuple[str, ...]) -> None:
    """Run a command of pinprof, or look at its options where it needs what is not here."""
    parse(words)
    elsewhere = any("://" in word for word in words)
    if words[0] in NOT_HERE or words[0].endswith(".py") or elsewhere or "--record" in words:
        return
    result = invoke(*words, "--force") if {"--json", "--html", "-o"} & {*words} else invoke(*words)
    assert result.exit_code == 0 or (words[0] == "check" and result.exit_code == 1), result.stderr


@pytest.mark.filterwarnings("ignore")  # of HTA's use of pandas
@pytest.mark.slow
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_commands_and_code_run(path: Path, folder: Path) -> None:
    here: dict[str, Any] = names()
    for block in blocks(path):
        if block.language == "python":
            look_at(block)
            if not block.marks:
                exec(block.text, here)
        elif block.language == "sh":
            for command in commands(block):
                if command.words[0] in OTHERS:
                    continue
                words = ours(command.words)
                if words is None:
                    at_hand(command.words)
                elif command.piped:
                    parse(words)
                else:
                    run(words)


def at_hand(words: tuple[str, ...]) -> None:
    """Check that the programs and files of this project that a command names are there."""
    programs = [word for word in words if word.startswith(("scripts/", "tests/", "traces/"))]
    assert programs, words
    assert {*words[: words.index(programs[0])]} - {"-m", "-s", "gpu", "pytest"} <= PYTHON, words
    for program in programs:
        assert (ROOT / program).exists(), words


def look_at(block: Block) -> None:
    """Check that a block is Python, and that what it takes of pinprof is there."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pinprof":
            assert hasattr(pinprof, node.attr) or node.attr == "hta"


def names(device: str = "cpu") -> dict[str, Any]:
    """Return what the code takes as given: a training loop, as its reader has one."""
    model = torch.nn.Linear(4, 2, device=device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train_step(model: torch.nn.Module, batch: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

    return {
        "pinprof": pinprof,
        "pytest": pytest,
        "torch": torch,
        "model": model,
        "batch": torch.ones(8, 4, device=device),
        "loader": DataLoader(torch.ones(800, 4), batch_size=8),  # type: ignore[arg-type]
        "train": lambda *batch: train_step(model, batch[0] if len(batch) == 1 else torch.ones(8, 4, device=device)),
        "train_step": train_step,
        "Trainer": lambda *_, **options: options,
    }


GIVEN = """
import pytest
import torch

@pytest.fixture
def model():
    return torch.nn.Linear(4, 2, device="cuda")

@pytest.fixture
def batch():
    return torch.ones(8, 4, device="cuda")

@pytest.fixture
def batches(batch):
    return [batch] * 3

def train_step(model, batch):
    model(batch).sum().backward()

def train_epoch(model, batches):
    for batch in batches:
        train_step(model, batch)

def validate(model):
    next(iter(model.parameters())).sum().item()

"""
"""What the tests in the guides take as given."""
PLUGIN = () if entry_points(group="pytest11", name="pinprof") else ("-p", "pinprof.pytest_plugin")
"""Where pinprof is not installed but on the path, pytest does not find its plugin."""


@pytest.mark.gpu
@each_text
def test_code_for_a_gpu_runs(path: Path, pytester: pytest.Pytester) -> None:
    for block in blocks(path):
        if block.language != "python" or "gpu" not in block.marks:
            continue
        if "def test_" in block.text:
            pytester.makepyfile(GIVEN + block.text)
            result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *PLUGIN)
            result.assert_outcomes(passed=1)
        else:
            exec(block.text, names("cuda"))


def test_an_option_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(click.UsageError):
        parse(("run", "--no-such-option", "train.py"))
    with pytest.raises(click.UsageError):
        parse(("no-such-command",))
