import pytest
from host_builder import host_profile
from hypothesis import given
from hypothesis import strategies as st

from pinprof.analyses.host_samples import HostSums, LibraryCall, measure_host
from pinprof.trace.lines import Place
from pinprof.trace.metadata.sampled_stacks import HostProfile

STEP = host_profile(
    (60, "train.py:9:<module> > model.py:4:forward > torch/nn/linear.py:5:forward"),
    (20, "train.py:9:<module> > model.py:3:forward"),
    (10, "train.py:8:<module> > torch/utils/data/dataloader.py:7:__next__ > data.py:2:__getitem__"),
    (6, "train.py:9:<module>"),
    (4, "lib/threading.py:1:run"),
)


def measured(profile: HostProfile) -> HostSums:
    sums = measure_host(profile)
    assert sums is not None
    return sums


def test_each_sample_belongs_to_the_innermost_line_of_the_program() -> None:
    called = [(row.place, row.kinds) for row in measured(STEP).called]
    assert called == [
        (Place("model.py", 4, "forward"), (("torch", 60),)),
        (Place("model.py", 3, "forward"), (("user", 20),)),
        (Place("data.py", 2, "__getitem__"), (("input", 10),)),
        (Place("train.py", 9, "<module>"), (("user", 6),)),
        (Place(None, None, None), (("library", 4),)),
    ]


def test_a_comprehension_is_a_part_of_the_function_around_it() -> None:
    lines = measured(
        host_profile(
            (5, "train.py:9:main > train.py:20:note > train.py:21:note.<locals>.<listcomp>"),
            (3, "train.py:9:main > train.py:20:note > train.py:21:note"),
            (2, "train.py:9:main > lib/pick.py:1:pick > model.py:3:<lambda>"),
        )
    ).called
    assert [(line.place, line.count) for line in lines] == [
        (Place("train.py", 21, "note"), 8),
        (Place("model.py", 3, "<lambda>"), 2),
    ]


def test_a_line_has_the_libraries_that_it_calls_without_imports() -> None:
    machinery = "lib/numpy/a.py:1:median > <frozen importlib._bootstrap>:1:_load > lib/numpy/ma.py:1:<module>"
    (line,) = measured(
        host_profile(
            (5, "train.py:9:main > tqdm/std.py:1:refresh > tqdm/std.py:4:format_meter"),
            (3, f"train.py:9:main > {machinery}"),
        )
    ).called
    assert line.place == Place("train.py", 9, "main")
    assert line.libraries == ((LibraryCall("tqdm", "refresh", "format_meter"), 5),)
    assert line.imports == 3


def test_a_librarys_lines_are_told_apart_from_its_networks() -> None:
    network = "torch/nn/modules/module.py:4:Module._call_impl > transformers/bert.py:7:Bert.forward"
    (line,) = measured(
        host_profile(
            (5, "train.py:9:main > transformers/trainer.py:3:Trainer.train"),
            (2, "train.py:9:main > transformers/trainer.py:4:Trainer.train"),
            (3, f"train.py:9:main > transformers/trainer.py:3:Trainer.train > {network}"),
            (4, f"train.py:9:main > {network} > torch/nn/functional.py:1:linear"),
        )
    ).called
    assert line.library_lines == tuple(
        (Place("transformers/trainer.py", number, "Trainer.train"), count) for number, count in ((3, 5), (4, 2))
    )
    assert line.in_networks == 3


@pytest.mark.parametrize(
    ("below", "bookkeeping"),
    [
        ("transformers/trainer.py:1:Trainer.floating_point_ops > torch/nn/modules/module.py:4:Module.parameters", True),
        ("torch/nn/modules/module.py:3:Module.train > torch/nn/parameter.py:1:__instancecheck__", True),
        ("torch/optim/optimizer.py:1:hook.<locals>.wrapper > torch/optim/adam.py:4:Adam._init_group", True),
        ("torch/cuda/__init__.py:3:is_available > torch/cuda/__init__.py:1:_is_compiled", True),
        ("torch/nn/modules/module.py:3:Module._call_impl > torch/nn/modules/module.py:1:Module.__getattr__", False),
        ("torch/optim/adam.py:5:Adam.step > torch/optim/adam.py:4:_multi_tensor_adam", False),
        ("torch/nn/functional.py:3:cross_entropy", False),
    ],
)
def test_torchs_bookkeeping_launches_nothing(below: str, bookkeeping: bool) -> None:
    (line,) = measured(host_profile((5, f"train.py:9:main > {below}"))).called
    assert (line.bookkeeping, len(line.libraries)) == (5 * bookkeeping, bookkeeping)
    assert not any("wrapper" in call.called for call, _ in line.libraries)


def test_a_line_has_its_own_samples_and_those_of_all_that_it_calls() -> None:
    lines = {row.place: (row.own, row.total) for row in measured(STEP).lines}
    assert lines[Place("train.py", 9, "<module>")] == (6, 86)
    assert lines[Place("torch/nn/linear.py", 5, "forward")] == (60, 60)
    assert lines[Place("train.py", 8, "<module>")] == (0, 10)


def test_functions_of_one_name_stand_in_the_order_of_their_files() -> None:
    stacks = [(1, f"{file}.py:1:forward") for file in "dbca"]
    assert [row.file for row in measured(host_profile(*stacks)).functions] == ["a.py", "b.py", "c.py", "d.py"]


def test_the_error_of_a_share_is_that_of_so_many_draws() -> None:
    half = measured(host_profile((50, "a.py:1:f"), (50, "a.py:2:g")))
    assert half.error(50) == pytest.approx(0.098, abs=0.003)  # 1.96 sqrt(0.5 * 0.5 / 100)
    quarter = measured(host_profile((200, "a.py:1:f"), (200, "a.py:2:g")))
    assert quarter.error(200) == pytest.approx(0.049, abs=0.001)  # four times the samples, half of the error


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["a.py:1:f", "a.py:1:f > torch/b.py:2:g", "lib/c.py:3:h"])))
)
def test_all_sums_add_up_to_the_samples(stacks: list[tuple[int, str]]) -> None:
    sums = measure_host(host_profile(*stacks))
    count = sum(count for count, _ in stacks)
    if sums is None:
        assert count == 0
        return
    assert sum(number for _, number in sums.kinds) == count
    assert sum(row.count for row in sums.called) == count
    assert sum(row.own for row in sums.lines) == sum(row.own for row in sums.functions) == count


TRAINER = "train.py:9:<module> > lib/trainer.py:1:train > lib/trainer.py:2:loop > "
CALL = "torch/nn/modules/module.py:3:_wrapped_call_impl > "


def test_what_a_trainer_does_below_the_line_that_calls_it_is_told_by_phase() -> None:
    sums = measure_host(
        host_profile(
            (44, f"{TRAINER}lib/trainer.py:3:step > {CALL}lib/bert.py:4:forward > torch/nn/linear.py:5:forward"),
            (25, f"{TRAINER}lib/trainer.py:4:step > torch/_tensor.py:6:backward > torch/autograd/graph.py:7:run"),
            # recomputed in the backward pass
            (2, f"{TRAINER}torch/autograd/__init__.py:6:backward > torch/utils/checkpoint.py:8:f > {CALL}lib/x.py:1:f"),
            (15, f"{TRAINER}torch/optim/adam.py:8:step > torch/optim/adam.py:9:_fused"),
            # the optimizer calls the step that it is given
            (4, f"{TRAINER}torch/optim/adam.py:8:step > lib/trainer.py:5:closure > {CALL}lib/bert.py:4:forward"),
            (6, f"{TRAINER}lib/trainer.py:6:clip > torch/nn/utils/clip.py:7:norm"),
            (4, f"{TRAINER}lib/trainer.py:7:log > logging/__init__.py:8:info"),
        )
    )
    assert sums is not None
    (line,) = sums.called
    assert line.parts == (("forward", 48), ("backward", 27), ("optimizer", 15), ("clip", 6), ("log", 4))
    assert sum(count for _, count in line.parts) == line.count


def test_functions_on_the_way_to_what_takes_the_time_are_not_parts() -> None:
    sums = measure_host(
        host_profile(
            (60, "train.py:1:m > lib/a.py:1:fit > lib/a.py:2:loop > lib/a.py:3:read"),
            (39, "train.py:1:m > lib/a.py:1:fit > lib/a.py:2:loop > lib/a.py:4:write"),
            (1, "train.py:1:m > lib/a.py:1:fit"),
        )
    )
    assert sums is not None
    assert sums.called[0].parts == (("read", 60), ("write", 39), ("fit", 1))
