"""Iterations of reinforcement learning, told from made-up times of optimizer steps."""

from hypothesis import given
from hypothesis import strategies as st

from pinprof.capture.steps.groups import MAX_GROUP_STEPS, Gap, Groups, group_size, pauses

MS = 1_000_000
UPDATE = Gap(5 * MS, 2)
ROLLOUT = Gap(100 * MS, 258)


def ppo(size: int, groups: int, rollout: Gap = ROLLOUT, update: Gap = UPDATE) -> list[Gap]:
    """Return the gaps from the first optimizer step to the last of these groups."""
    return ([update] * (size - 1) + [rollout]) * (groups - 1) + [update] * (size - 1)


def follow(gaps: list[Gap], *, knows_calls: bool = True) -> tuple[Groups, list[int]]:
    """Return what was found in the steps around these gaps, and after how many of them an iteration ended."""
    groups, now_ns = Groups(wanted=True), 1
    ends = [1] if groups.stepped("Adam", now_ns) else []
    for number, gap in enumerate(gaps, start=2):
        for _ in range(gap.calls or 0 if knows_calls else 0):
            groups.called()
        if gap.evaluated:
            groups.evaluated()
        now_ns += gap.ns
        if groups.stepped("Adam", now_ns):
            ends.append(number)
    return groups, ends


def test_sixteen_updates_after_each_rollout_make_an_iteration() -> None:
    groups, ends = follow(ppo(16, 6))
    assert groups.size == 16
    assert ends == [*range(1, 33), 48, 64, 80, 96]  # alone at first; none while it waits for the third group


def test_a_line_of_the_log_every_ten_steps_is_no_rollout() -> None:
    """The host runs ahead, and `loss.item()` waits for ten steps of the GPU; it calls the model once, as ever."""
    groups, ends = follow(ppo(10, 8, rollout=Gap(300 * MS, 1), update=Gap(5 * MS, 1)))
    assert groups.size == 1
    assert not groups.wants_calls
    assert ends == list(range(1, 81))


def test_an_evaluation_every_ten_steps_is_no_rollout() -> None:
    groups, ends = follow(ppo(10, 8, rollout=Gap(300 * MS, 500, evaluated=True)))
    assert groups.size == 1
    assert ends == list(range(1, 81))


def test_one_update_per_rollout_is_a_step_already() -> None:
    groups, ends = follow([ROLLOUT] * 50)
    assert groups.size == 1
    assert ends == list(range(1, 52))


def test_a_pause_at_another_place_begins_the_count_anew() -> None:
    gaps = [*ppo(4, 4), ROLLOUT, *[UPDATE] * 1, *[ROLLOUT, *[UPDATE] * 3] * 3]
    groups, ends = follow(gaps)
    assert groups.size == 4
    assert ends[-3:] == [22, 26, 30]  # two steps of 17 and 18 belong to none


@given(
    st.integers(2, MAX_GROUP_STEPS),
    st.integers(3, 7),
    st.floats(4.0, 100.0),
    st.integers(20, 1000),
    st.randoms(use_true_random=False),
)
def test_groups_are_found_whatever_their_size_and_times(
    size: int, groups: int, ratio: float, calls: int, random: object
) -> None:
    update_ns = 5 * MS
    rollout_ns = int(update_ns * max(ratio, size / 5))
    jitter = getattr(random, "uniform")  # noqa: B009  hypothesis has no type for it
    gaps = [
        Gap(int((rollout_ns if gap is ROLLOUT else update_ns) * jitter(0.9, 1.1)), calls if gap is ROLLOUT else 2)
        for gap in ppo(size, groups)
    ]
    assert group_size(gaps) == size
    ends = follow([*gaps, ROLLOUT, *gaps])[1]
    assert ends[-groups:] == [(2 * groups - number) * size for number in range(groups - 1, -1, -1)]


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 300), st.booleans()), max_size=150))
def test_every_end_is_a_step_and_nothing_is_lost_before_it_is_known(raw: list[tuple[int, int, bool]]) -> None:
    gaps = [Gap(*values) for values in raw]
    groups, ends = follow(gaps)
    assert set(ends) <= set(range(1, len(gaps) + 2))
    assert 1 <= groups.size <= MAX_GROUP_STEPS


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=150))
def test_pauses_are_much_longer_than_the_usual_gap(times: list[int]) -> None:
    gaps = [Gap(ns) for ns in times]
    assert all(gaps[place].ns >= 3 * sorted(times)[(len(times) - 1) // 2] for place in pauses(gaps))
