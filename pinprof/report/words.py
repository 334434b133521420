"""The words that all reports share, and names of the trace made safe to show."""

import re

from pinprof.analyses.syncs.sites import BareSite
from pinprof.ground.units import Ranged, between, counted, digits_of, duration, percent, ranged, shortened
from pinprof.measurement.profile import Profile
from pinprof.measurement.trust import FIGURE_KINDS, Doubt
from pinprof.prediction.predict import Saving
from pinprof.rules.rule import Finding, Findings, FoundSite, Joint
from pinprof.rules.sums import at
from pinprof.trace.frames import called_name
from pinprof.trace.lines import Place
from pinprof.trace.tables import WHOLE_TRACE

HOW_KNOWN = {"measured": "measured without profiler", "given": "as given", "estimated": "estimated without profiler"}
MAX_PATH_PARTS = 2
NOTHING = "-"
"""Stands for a number that does not exist or is withheld."""
TRUST_TITLE = "Before you trust this trace"
MAX_NAME_CHARS, MAX_CELL, MAX_TEXT_CHARS = 90, 200, 2000
"""Longest texts in characters, of a name, in a cell of a table, and at all; a kernel's name can have thousands."""
MAX_SHORT_NAME_CHARS = 40

SHARED_BEGINNING = re.compile(
    r"^void |\(anonymous namespace\)::|^autograd::engine::evaluate_function: "
    r"|^(?:ampere|volta|turing|maxwell|pascal|sm\d+_xmma|cutlass\d*_\d+(?:_tensorop|_simt|_wmma)?)_(?=\w)"
)
"""Beginnings that many names share; in a narrow rectangle they would leave no room for the rest."""
WRAPPING_TEMPLATE = re.compile(
    r"^(?:\w*elementwise_kernel\w*|reduce_kernel|multi_tensor_apply_kernel|Kernel2?|device_kernel"
    r"|gpu_kernel_impl\w*|[AB]Unary\w*|BinaryFunctor|func_wrapper_t|ReduceOp|TensorList\w*"
    r"|std|array|function|c10|at|native|cuda|detail|\w+_internal|cutlass|kernel|gemm|TensorIteratorBase|operator|lambda"
    r"|bool|char|int|long|short|float|double|half|unsigned|signed|const|void|u?int\d*_t|Half|BFloat16|complex)$"
)
"""Templates and types of kernels that do a thing which only an argument of theirs names, as torch and CUTLASS do it."""
NAME_WORD = re.compile(r"(?<!#)\b[A-Za-z_]\w*")
NAME_ARGUMENTS = re.compile(r"(?<=\w)[<(].*", re.DOTALL)


def not_shown(*reasons: Doubt | None) -> str:
    """Return "not shown (reason)" by the first doubt that withholds figures; empty if none does."""
    reason = next(filter(None, reasons), None)
    return f"not shown ({reason.what})" if reason else ""


def doubts(profile: Profile) -> tuple[Doubt, ...]:
    """Return what to know before the figures are read, the gravest first."""
    return tuple(entry for entry in profile.doubts if entry.level != "absent")


def effect_and_remedy(entry: Doubt) -> str:
    """Return what a doubt means for the report, and the remedy, as sentences without the last full stop."""
    return ". ".join(filter(None, (entry.effect, figures_not_given(entry), capitalized(entry.remedy))))


def figures_not_given(entry: Doubt) -> str:
    """Return which figures a doubt withholds; empty if none."""
    figures = [words for figure, words in FIGURE_KINDS.items() if figure in entry.withholds]
    shown = "all figures" if len(figures) == len(FIGURE_KINDS) else ", ".join(figures)
    return f"Withheld: {shown}" if figures else ""


def capitalized(sentence: str) -> str:
    """Return words with a capital at the beginning, unless they begin with a command or with code."""
    first = sentence.split(" ", 1)[0].rstrip(",:;")
    return sentence[:1].upper() + sentence[1:] if first.isalpha() and first != "pinprof" else sentence


def known_length(profile: Profile) -> Ranged | None:
    """Return the step without the profiler with its range; None if it is not known."""
    step_ns = profile.estimate.step_ns
    return None if step_ns is None else ranged(step_ns, profile.step_range_ns)


def step_known(profile: Profile) -> tuple[str, str] | None:
    """Return the step without the profiler, and how it is known with its range; None if it is not known."""
    length, bounds = known_length(profile), profile.step_range_ns
    if length is None:
        return (between(*bounds), "without profiler; the trace does not show more") if bounds else None
    how = HOW_KNOWN[profile.estimate.source]
    return length.number.removeprefix("about "), f"{how} ({length.range})" if length.range else how


UNKNOWN_SAVING = "the saving is unknown"
HAZARD_WARNING = "numbers may be wrong"


def worth(finding: Finding, profile: Profile, *, in_short: bool = False) -> str:
    """Return what fixing a finding alone saves, `in_short` in few words; without a replay, the time concerned."""
    if finding.saving is None:
        return (
            worth_without_replay(finding)
            or f"affects up to {duration(finding.evidence.cost_ns)} of idle GPU or exposed copies"
        )
    if not finding.saving.saving_ns:
        return "saves nothing alone"
    if finding.evidence.seen:
        return f"{_saves(finding.saving, profile, of=None)} per step, in the longer steps"
    return _saves(finding.saving, profile, of="" if in_short else f" of the {profile.steps.whole}")


def worth_without_replay(finding: Finding) -> str:
    """Return what is known of a saving without a replay; empty if that is only the cost of waits and copies."""
    if finding.most_ns is not None:
        if finding.rule.family == "gpu":
            return f"{duration(finding.most_ns)} of the GPU's work could run faster"
        return f"saves at most {duration(finding.most_ns)}"
    if finding.evidence.is_irregular:
        return f"adds {duration(finding.evidence.cost_ns)} per step, in the longer steps"
    if not finding.evidence.cost_ns:
        return HAZARD_WARNING if finding.rule.is_hazard else UNKNOWN_SAVING
    return f"{duration(finding.evidence.cost_ns)} of the GPU's work" if finding.rule.family == "gpu" else ""


def site_figures(site: FoundSite) -> str:
    """Return the figures of a site of a finding, and what fixing it alone saves."""
    figures, saving = site.evidence.figures or site.evidence.text, site.saving
    if saving is None:
        return figures
    return f"{figures}; alone saves {duration(saving.saving_ns) if saving.saving_ns else 'nothing'}"


def with_more_sites(where: str, sites: int) -> str:
    """Return the place of the costliest of N sites, and how many more there are; empty if `where` is."""
    return f"{where} and {counted(sites - 1, 'more site')}" if where and sites > 1 else where


def at_costliest_site(finding: Finding) -> str:
    """Return " at FILE:LINE" of the costliest site of a finding, and how many more sites there are."""
    return with_more_sites(at(finding.evidence.place), len(finding.sites))


def then_worth(finding: Finding, profile: Profile) -> str:
    """Return what a fix saves together with the change that it makes possible; empty if that is not more."""
    then = finding.evidence.then
    if then is None or finding.with_then is None:
        return ""
    both = _saves(finding.with_then, profile, of=f" of the {profile.steps.whole}")
    return f"with {then.what} ({then.rule}), together: {both}"


def joint_worth(findings: Findings, profile: Profile, which: str = "all of these", *, in_short: bool = False) -> str:
    """Return what all fixes together save, `in_short` in few words; empty with fewer than two predicted savings.

    `which` names the findings, for a text that does not show all.
    """
    step_ns = profile.step_ns
    if findings.joint is None or not step_ns or sum(finding.saving is not None for finding in findings) < 2:  # noqa: PLR2004
        return ""
    if not findings.joint.saving_ns:
        return f"{which} together save nothing"
    lengths = between(step_ns, step_ns - findings.joint.saving_ns, digits_of(profile.step_range_ns))
    saves = _saves(findings.joint, profile, of="" if in_short else f" of the {profile.steps.whole}")
    return f"{which_together(findings.joint, which)}: {lengths}; {saves}"


def which_together(joint: Joint, which: str = "all of these") -> str:
    """Return which findings a joint saving is of."""
    but = f" but {' and '.join(joint.without)}" if joint.without else ""
    return f"{which}{but} together"


def source_of_rates(findings: Findings, profile: Profile) -> str:
    """Return the GPU whose measured rates pinned copies get in replays; empty if rates are assumed or not used."""
    if not findings.machine or not any(finding.saving for finding in findings):
        return ""
    names = gpu_names(profile)
    other = f"; the trace is of {' and '.join(names)}" if names and findings.machine not in names else ""
    return f"copies that become pinned run at the rates measured on {findings.machine}{other}"


def saves_or_costs(before_ns: float, after_ns: float, whole: str = "step") -> str:
    """Return the difference of two steps: "saves 2.18 ms, 16 % of the step", or "costs ...".

    `whole` is what counts as a step: `StepTimes.whole`.
    """
    more = after_ns - before_ns
    share = f"{percent(abs(more) / before_ns)} of the {whole}"
    if more > before_ns:
        share = f"{after_ns / before_ns:.3g} times the {whole}"
    return f"{'costs' if more > 0 else 'saves'} {duration(abs(more))}, {share}"


def _saves(saving: Saving, profile: Profile, *, of: str | None) -> str:
    verb, step_ns = "may save" if saving.range_ns[0] <= 0 else "saves", profile.step_ns
    share = f", {percent(saving.saving_ns / step_ns)}{of}" if step_ns and of is not None else ""
    return f"{verb} {ranged(saving.saving_ns, saving.range_ns)}{share}"


def complete_steps(profile: Profile) -> str:
    """Return how many complete steps there are, and what marks them."""
    times, marker = profile.steps, profile.info.step_marker or profile.steps.marker
    if times.source == WHOLE_TRACE:
        return times.marker
    return f"{counted(times.count, 'complete step')} ({marker})"


def gpu_names(profile: Profile) -> list[str]:
    """Return the names of the GPUs of a recording, as far as they were recorded."""
    return sorted({device.name for device in profile.info.devices if device.name})


def recording_line(profile: Profile) -> str:
    """Return the GPU, the torch and the rank of a recording, its steps and its length."""
    info = profile.info
    gpus = ", ".join(sorted({device.name or f"device {device.index}" for device in info.devices}))
    rank = f"rank {info.rank}" + (f" of {info.world_size}" if info.world_size else "") if info.rank is not None else ""
    torch = f"torch {info.torch_version}" if info.torch_version else ""
    parts = (gpus, torch, rank, complete_steps(profile), f"{duration(profile.span_ns)} recorded")
    return " · ".join(printable(part) for part in parts if part)


def place(at: Place) -> str:
    """Return a place as `FILE:LINE (FUNCTION)`, without a line as `FUNCTION (FILE)`; empty if it is not known."""
    file, line, function = at
    if file is None or function is None:
        return function or ""
    return f"{function} ({file})" if line is None else f"{file}:{line} ({function})"


def copies_named(direction: str, host_memory: str) -> str:
    """Return a kind of copies: "HtoD pageable", or "DtoD" where no memory of the host is involved."""
    return direction if host_memory == "none" else f"{direction} {host_memory}"


def with_more(name: str, count: int) -> str:
    """Return a name, and how many more there are; empty for an empty name."""
    return f"{name} and {count - 1} more" if name and count > 1 else name


def whole_place(site: BareSite) -> str:
    """Return the user's place of a site and that of the library function that waits, as far as they are known."""
    return ", in ".join(
        filter(None, (place(at) for at in (site.place, site.library and short_place(site.library)) if at))
    )


def short_place(at: Place) -> Place:
    """Return a place with only the last parts of its file's path, for a terminal."""
    parts = (at.file or "").split("/")
    return at._replace(file="/".join(parts[-MAX_PATH_PARTS:]) or None)


def printable(text: str) -> str:
    """Return a text of the trace as people read it: without what a terminal would obey, and cut if it is very long."""
    text = shortened(text, MAX_TEXT_CHARS)
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def cut(text: str, longest: int = MAX_NAME_CHARS) -> str:
    """Return a text of the trace as `printable`, cut in its middle if it is longer than given."""
    return shortened(printable(text), longest)


def short(name: str) -> str:
    """Return a short form of a name for a narrow rectangle, as plain text.

    A template keeps its own name, or the argument that distinguishes it among many such kernels:
    `elementwise_kernel<.., CUDAFunctor_add<float>, ..>` becomes `CUDAFunctor_add`. A Python function loses its file.
    """
    plain = SHARED_BEGINNING.sub("", printable(name))
    bare = NAME_ARGUMENTS.sub("", plain)
    head = called_name(plain) or (plain if bare == plain else bare.rsplit("::", maxsplit=1)[-1])
    if bare != plain and WRAPPING_TEMPLATE.match(head):
        words = NAME_WORD.findall(plain[: 20 * MAX_SHORT_NAME_CHARS])
        named = next((word for word in words if not WRAPPING_TEMPLATE.match(word)), head)
        head = SHARED_BEGINNING.sub("", named)
    return head if len(head) <= MAX_SHORT_NAME_CHARS else f"{head[: MAX_SHORT_NAME_CHARS - 1]}…"
