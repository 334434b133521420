from pinprof.ground.units import duration, size
from pinprof.rules.copies import many_small, of_places
from pinprof.rules.rule import AllEvidence, Change, Details, Evidence, Profile, Rule
from pinprof.rules.sums import Copies


def _small(details: Details, profile: Profile) -> AllEvidence:
    def evidence_of(copies: Copies) -> Evidence:
        launch = details.trace.links.launch[copies.rows]
        time = float(details.trace.calls.duration_ns[launch[launch != -1]].sum()) / profile.steps.count
        average = size((copies.bytes or 0) / copies.per_step)
        return Evidence(
            copies.exposed_ns,
            f"{copies.named(f'copies of {average} each')}: "
            f"{duration(copies.exposed_ns)} exposed on the GPU, and the host takes {duration(time)} to launch them",
            *copies.place,
            at_any_cost=True,
            figures=copies.figures,
        )

    yield from of_places(profile, many_small(details, profile), evidence_of)


RULE = Rule(
    id="PIN106",
    title="many small copies",
    short="one large copy",
    answers=("copy",),
    numbers="equal",
    why="A small copy spends its time on launch and start, not on the transfer: many of them cost far more than one "
    "copy of the same bytes.",
    fix="Put them into one tensor on the host, copy that, and take views of it on the GPU. If the collate_fn of a "
    "DataLoader with pin_memory=True makes it, it is pinned, too; a worker must not pin by itself.",
    before="parts = [x.to(device) for x in small]  # each pays for its launch and its start",
    code="packed = torch.cat([x.reshape(-1) for x in small])  # best in the loader's collate_fn\n"
    "flat = packed.to(device, non_blocking=True).split([x.numel() for x in small])\n"
    "parts = [part.view(x.shape) for part, x in zip(flat, small)]",
    safe_if="The tensors have one dtype, or are packed per dtype. No part changes its size or outlives the others: "
    "they share memory.",
    near_miss="parts = [x.to(device) for x in small[:4]]  # so few cost less than packing them",
    change=Change(r"\.(?:to|cuda|copy_)\(", "pack them into one copy"),
    search=_small,
)
