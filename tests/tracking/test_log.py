"""Reports in runs of MLflow and W&B themselves, in a store and in folders on this machine."""

import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from command_line import copying_trace, invoke, is_one_line_error
from recordings import TRACES
from torch.utils.data import DataLoader, TensorDataset
from trace_builder import TraceBuilder
from wandb_reader import WandbRun, read_run

import pinprof
from pinprof.capture.training import TrainingRecording
from pinprof.errors import PinprofError
from pinprof.report.scalars import NUMBERS
from pinprof.tracking import active_runs, destinations
from pinprof.units import ms

pytestmark = [pytest.mark.filterwarnings("ignore")]  # of the libraries
RECORDED = TRACES / "loss_item_host_work.stack.json.gz"
RANKS = TRACES / "ranks"
WANDB_NAMES = ("WANDB_RUN_ID", "WANDB_PROJECT", "WANDB_NAME")
SHORT: dict[str, Any] = {"warmup": 1, "plain_steps": 2, "plain_seconds": 0.0, "plain_precision": 1, "steps": 2}
NEEDED = 7


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a folder in which MLflow and W&B keep all that they write; making MLflow's tables takes seconds."""
    folder = tmp_path_factory.mktemp("trackers")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID", *WANDB_NAMES):
            patch.delenv(name, raising=False)
        for name in ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
            patch.setenv(name, str(folder))
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_SILENT", "true")
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        patch.chdir(folder)  # MLflow keeps artifacts there
        yield folder


@pytest.fixture(scope="module")
def mlflow(home: Path) -> Any:
    """Return MLflow, with an empty store, whatever store other tests of this process have used."""
    pytest.importorskip("mlflow", reason="MLflow is not installed")
    library: Any = import_module("mlflow")
    library.set_tracking_uri(f"sqlite:///{home}/mlflow.db")
    library.set_experiment("Default")
    return library


@pytest.fixture(scope="module")
def wandb(home: Path) -> Iterator[Any]:
    """Return W&B's library, without a network."""
    pytest.importorskip("wandb", reason="W&B is not installed")
    library: Any = import_module("wandb")
    library.teardown()  # it reads the environment once
    yield library
    library.teardown()


@pytest.fixture
def runs(wandb: Any, home: Path) -> Callable[[], list[WandbRun]]:
    """Return a function that returns what W&B wrote of the runs of this test."""
    wandb.finish()
    before = {*home.glob("wandb/offline-run-*")}

    def written() -> list[WandbRun]:
        wandb.finish()
        return [read_run(folder) for folder in sorted({*home.glob("wandb/offline-run-*")} - before)]

    return written


@cache
def expected(*words: Path | str) -> dict[str, Any]:
    """Return the JSON of the report."""
    return json.loads(invoke("report", *words, "--json", "-").stdout)


def artifact(mlflow: Any, run_id: str, name: str) -> str:
    return mlflow.artifacts.load_text(f"runs:/{run_id}/pinprof/{name}")


def lost_kernels(folder: Path) -> Path:
    """Write a trace that lacks most of the kernels that it launches: busy time and overlap cannot be told."""
    builder = TraceBuilder()
    for step, start in enumerate(builder.steps(4)):
        for number in range(8):
            call = builder.event("cuda_runtime", "cudaLaunchKernel", start + 10 * number + 5, 2)
            call["args"]["correlation"] = 100_000 + 10 * step + number
        builder.kernel(start + 200, 300, launch=start + 150)
    return builder.write(folder / "lost.json.gz")


# ---------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def said(mlflow: Any, wandb: Any) -> list[str]:
    """Log a report to a new run of each, and return what the command said."""
    where = ("--mlflow", "--experiment", "bert", "--wandb", "--offline", "--project", "bert")
    result = invoke("log", RECORDED, *where, "--run-name", "baseline")
    assert result.exit_code == 0, result.stderr
    return result.stderr.splitlines()


@pytest.mark.slow
def test_mlflow_gets_figures_verdict_page_and_json_in_a_new_run(mlflow: Any, said: list[str]) -> None:
    (run,) = mlflow.search_runs(experiment_names=["bert"], output_format="list")
    trace = expected(RECORDED)["traces"][0]
    metrics, tags = run.data.metrics, run.data.tags
    assert run.info.run_name == "baseline"
    assert run.info.status == "FINISHED"
    assert metrics["pinprof/steps/step_ms"] == trace["steps"]["step_ms"]
    assert [metrics[f"pinprof/steps/range_ms/{end}"] for end in ("low", "high")] == trace["steps"]["range_ms"]
    assert metrics["pinprof/steps/busy_fraction"] == pytest.approx(9.4975 / 12.7329, abs=1e-4)
    assert metrics["pinprof/joint/predicted_step_ms"] == trace["joint"]["predicted_step_ms"]
    assert metrics["pinprof/findings/PIN201/saving_ms"] == trace["findings"][0]["saving_ms"]
    assert metrics["pinprof/findings/count"] == len(trace["findings"])
    assert {f"pinprof/{name}" for name in NUMBERS} <= metrics.keys()
    assert tags["pinprof/verdict/cause"] == "sync"
    assert tags["pinprof/verdict/headline"] == trace["verdict"]["headline"]
    assert tags["pinprof/withheld"] == "nothing"
    assert json.loads(artifact(mlflow, run.info.run_id, "report.json"))["traces"][0] == trace
    page = artifact(mlflow, run.info.run_id, "report.html")
    assert page.startswith("<!DOCTYPE html>")
    assert "pinprof/workloads/waits.py:58" in page
    logged, following = (line for line in said if "mlflow" in line.lower())
    assert logged.endswith(f"report.html and report.json to MLflow run {run.info.run_id}")
    assert following == f"Next: mlflow ui --backend-store-uri {mlflow.get_tracking_uri()}"


@pytest.mark.slow
def test_a_run_is_continued_with_its_status_and_gets_no_figure_that_is_withheld(mlflow: Any, tmp_path: Path) -> None:
    run = mlflow.MlflowClient().create_run("0")
    trace = lost_kernels(tmp_path)
    result = invoke("log", trace, "--mlflow", "--run-id", run.info.run_id, "--no-source")
    assert result.exit_code == 0, result.stderr
    after = mlflow.get_run(run.info.run_id)
    assert after.info.status == "RUNNING"
    missing = expected(trace)["traces"][0]["missing"][0]
    assert "busy" in missing["invalidates"]
    assert "pinprof/steps/busy_fraction" not in after.data.metrics
    assert "pinprof/joint/saving_ms" not in after.data.metrics
    assert 0.0 not in {after.data.metrics.get(f"pinprof/{name}") for name, kinds in NUMBERS.items() if "busy" in kinds}
    withheld = after.data.tags["pinprof/withheld"]
    assert "steps/busy_fraction" in withheld
    assert "pinprof/findings/count" not in after.data.metrics  # rules that need them were silent
    assert "findings/count" in withheld
    assert missing["what"] in withheld


@pytest.mark.slow
def test_wandb_gets_the_same_in_a_folder(said: list[str]) -> None:
    run = read_run(Path(said[-1].removeprefix("Next: wandb sync ")))
    trace = expected(RECORDED)["traces"][0]
    assert (run.project, run.name) == ("bert", "baseline")
    assert run.summary["pinprof/steps/step_ms"] == trace["steps"]["step_ms"]
    assert run.summary["pinprof/verdict/cause"] == "sync"
    assert {f"pinprof/{name}" for name in NUMBERS} <= run.summary.keys()
    files = run.artifacts["pinprof-report"]
    assert json.loads(files["report.json"])["traces"][0] == trace
    panel = run.folder / "files" / run.summary["pinprof/page"]["path"]
    assert panel.read_text() == files["report.html"]


@pytest.mark.slow
def test_of_a_job_a_run_gets_the_rank_that_the_report_shows(mlflow: Any, tmp_path: Path) -> None:
    traces = [RANKS / f"sleeping_rank.rank{rank}.before.json.gz" for rank in (0, 1)]
    assert invoke("log", *traces, "--mlflow", "--experiment", "job", "--jobs", "1").exit_code == 0
    (run,) = mlflow.search_runs(experiment_names=["job"], output_format="list")
    report = json.loads(artifact(mlflow, run.info.run_id, "report.json"))
    shown = report["ranks"]["shown_rank"]
    assert run.data.metrics["pinprof/ranks/skew_ms"] == report["ranks"]["skew_ms"]
    assert run.data.tags["pinprof/ranks/slowest_rank"] == str(report["ranks"]["slowest_rank"])
    assert run.data.tags["pinprof/path"] == str(traces[shown])
    assert "who holds up the job" in artifact(mlflow, run.info.run_id, "report.html")
    refused = invoke("log", traces[0], copying_trace(tmp_path), "--mlflow", "--jobs", "1")
    assert refused.exit_code == 2
    assert "a run gets one report; log these traces one by one" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say where to log to: --mlflow or --wandb"),
        (("--mlflow", "--offline"), "--offline is an option of --wandb"),
        (("--wandb", "--experiment", "bert"), "--experiment is an option of --mlflow"),
        (("--mlflow", "--wandb", "--run-id", "1"), "--run-id is of one tracker"),
    ],
)
def test_what_cannot_be_logged_to_is_one_line(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    result = invoke("log", copying_trace(tmp_path), *words)
    assert is_one_line_error(result)
    assert said in result.stderr


@pytest.mark.parametrize(("library", "install"), [("mlflow", "pip install mlflow"), ("wandb", "pip install wandb")])
def test_a_library_that_is_not_there_is_named_before_the_trace_is_read(
    library: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    result = invoke("log", "no.json.gz", f"--{library}")
    assert is_one_line_error(result)
    assert f"is not installed: {install}" in result.stderr


# ---------------------------------------------------------------- in a program


@pytest.mark.slow
def test_a_report_goes_into_the_runs_that_are_active(
    mlflow: Any, wandb: Any, runs: Callable[[], list[WandbRun]], tmp_path: Path
) -> None:
    report = pinprof.analyze(copying_trace(tmp_path))
    with mlflow.start_run() as active, wandb.init(project="loop") as run:
        run.log({"loss": 1.0}, step=10)
        names = pinprof.log(report)
        run.log({"accuracy": 0.5}, step=10)
        run.log({"loss": 0.5}, step=11)
    assert names == (f"MLflow run {active.info.run_id}", f"W&B run {run.id}")
    step_ms = mlflow.get_run(active.info.run_id).data.metrics["pinprof/steps/step_ms"]
    (written,) = runs()
    assert written.summary["pinprof/steps/step_ms"] == step_ms == ms(report.profile.estimate.step_ns or 0)
    logged = [(row["_step"], row.get("loss"), row.get("accuracy")) for row in written.history]
    assert logged == [(10, 1.0, 0.5), (11, 0.5, None)]


def test_without_a_run_there_is_an_error_and_nothing_is_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("mlflow", "wandb"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert active_runs() == []
    with pytest.raises(PinprofError, match=r"call mlflow.start_run\(\) or wandb.init\(\) before"):
        pinprof.log(copying_trace(tmp_path))
    assert not {"mlflow", "wandb"} & sys.modules.keys()


@pytest.mark.slow
def test_runs_are_told_from_what_else_logs(wandb: Any) -> None:
    disabled = wandb.init(mode="disabled")
    assert destinations([object(), SimpleNamespace(id=1, info=2), disabled, None]) == []
    disabled.finish()


@pytest.mark.slow
def test_a_run_that_is_not_there_or_cannot_be_written_to_is_an_error(mlflow: Any, tmp_path: Path) -> None:
    result = invoke("log", copying_trace(tmp_path), "--mlflow", "--run-id", "1")
    assert is_one_line_error(result)
    assert "MLflow: Run with id=1 not found" in result.stderr
    good, bad = (mlflow.MlflowClient().create_run("0") for _ in range(2))
    mlflow.MlflowClient().delete_run(bad.info.run_id)
    wrapped = [mlflow.ActiveRun(run) for run in (bad, good)]
    with pytest.raises(PinprofError, match=f"MLflow run {bad.info.run_id}: cannot be written to"):
        pinprof.log(copying_trace(tmp_path), to=wrapped)
    assert "pinprof/steps/step_ms" in mlflow.get_run(good.info.run_id).data.metrics


# ---------------------------------------------------------------- trainers


@pytest.fixture(scope="module")
def lightning() -> Any:
    pytest.importorskip("pytorch_lightning", reason="PyTorch Lightning is not installed")
    return import_module("lightning_models")


@pytest.fixture
def fit(lightning: Any, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that trains with loggers of Lightning, and returns the number of batches."""

    def fit(*loggers: Any, **options: Any) -> int:
        model = lightning.Model()
        trainer = lightning.Trainer(
            max_epochs=1,
            accelerator="cpu",
            callbacks=[lightning.PinprofCallback(tmp_path / "out.json", **SHORT, **options)],
            default_root_dir=tmp_path,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            logger=list(loggers),
        )
        trainer.fit(model, DataLoader(TensorDataset(torch.ones(NEEDED + 2, 4))))
        return model.batches

    return fit


def of_lightning(name: str, **options: Any) -> Any:
    return getattr(import_module("pytorch_lightning.loggers"), name)(**options)


def holds_a_recording_without_a_gpu(values: dict[str, Any], words: dict[str, str]) -> bool:
    """Return whether a run has the step, which a CPU has too, and says why it lacks what only a GPU has."""
    missing = "pinprof/steps/busy_ms" not in values and "steps/busy_ms" in words["pinprof/withheld"]
    return values["pinprof/steps/step_ms"] > 0 and missing and "no GPU" in words["pinprof/withheld"]


@pytest.mark.slow
def test_lightning_logs_to_the_runs_of_its_loggers(
    fit: Callable[..., int],
    mlflow: Any,
    runs: Callable[[], list[WandbRun]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = mlflow.get_tracking_uri()
    tracked = of_lightning("MLFlowLogger", experiment_name="lightning", tracking_uri=uri)
    in_folder = of_lightning("WandbLogger", project="lightning", save_dir=mlflow.get_tracking_uri()[10:-10])
    table = of_lightning("CSVLogger", save_dir=str(tmp_path))
    assert fit(tracked, in_folder, table) == NEEDED + 2
    data = mlflow.get_run(tracked.run_id).data
    assert holds_a_recording_without_a_gpu(data.metrics, data.tags)
    assert artifact(mlflow, tracked.run_id, "report.html").startswith("<!DOCTYPE html>")
    (run,) = runs()
    assert holds_a_recording_without_a_gpu(run.summary, run.summary)
    assert run.artifacts["pinprof-report"].keys() == {"report.html", "report.json"}
    assert f"logged the report to MLflow run {tracked.run_id} and W&B run" in capsys.readouterr().err


@pytest.mark.slow
def test_a_failing_tracker_is_one_line_and_the_training_goes_on(
    fit: Callable[..., int], mlflow: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("the server\nis down")

    monkeypatch.setattr(mlflow.MlflowClient, "log_text", fail)
    tracked = of_lightning("MLFlowLogger", tracking_uri=mlflow.get_tracking_uri())
    assert fit(tracked) == NEEDED + 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("pinprof:")]
    assert said[-1] == (
        f"pinprof: did not log the report: MLflow run {tracked.run_id}: cannot be written to (the server is down)"
    )


@pytest.mark.slow
def test_a_recording_that_the_end_of_the_program_ends_is_not_logged(
    mlflow: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = mlflow.ActiveRun(mlflow.MlflowClient().create_run("0"))
    training = TrainingRecording(tmp_path / "out.json", stop=False, options={**SHORT, "plain_steps": 0, "steps": 9})
    training.begin(0, 1, [run])
    for _ in range(6):
        training.boundary()
    training.end(at_exit=True)
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"pinprof: did not log the report to MLflow run {run.info.run_id}, as the program ends")
    assert not mlflow.get_run(run.info.run_id).data.metrics


@pytest.mark.slow
def test_lightning_does_not_log_if_it_is_told_not_to(
    fit: Callable[..., int], mlflow: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tracked = of_lightning("MLFlowLogger", tracking_uri=mlflow.get_tracking_uri())
    fit(tracked, log=False)
    assert not any(name.startswith("pinprof") for name in mlflow.get_run(tracked.run_id).data.metrics)
    assert "logged" not in capsys.readouterr().err


@pytest.fixture
def trainer(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that makes a Trainer of transformers that reports to these."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate, which transformers' Trainer needs, is not installed")
    library: Any = import_module("marked_trainer")

    def make(*report_to: str, count: int) -> Any:
        sizes = {"vocab_size": 16, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}
        config = library.transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
        options = library.transformers.TrainingArguments(
            output_dir=str(tmp_path / "out"),
            num_train_epochs=1,
            per_device_train_batch_size=1,
            dataloader_pin_memory=False,
            disable_tqdm=True,
            report_to=list(report_to) or "none",
            save_strategy="no",
            use_cpu=True,
        )
        data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * count
        callback = library.PinprofCallback(tmp_path / "out.json", **SHORT)
        model = library.transformers.GPT2LMHeadModel(config)
        return library.MarkedTrainer(model, options, train_dataset=data, callbacks=[callback])

    return make


@pytest.mark.slow
@pytest.mark.parametrize("count", [NEEDED + 3, NEEDED], ids=["while it trains", "when it has ended"])
def test_transformers_logs_to_the_runs_that_it_reports_to(
    trainer: Callable[..., Any], count: int, mlflow: Any, runs: Callable[[], list[WandbRun]]
) -> None:
    """MLflow's run ends before the callback knows that the training has."""
    mlflow.set_experiment(f"transformers {count}")
    trainer("mlflow", "wandb", count=count).train()
    (run,) = mlflow.search_runs(experiment_names=[f"transformers {count}"], output_format="list")
    assert run.info.status == "FINISHED"
    assert holds_a_recording_without_a_gpu(run.data.metrics, run.data.tags)
    (written,) = runs()
    assert holds_a_recording_without_a_gpu(written.summary, written.summary)
    assert "report.html" in written.artifacts["pinprof-report"]


@pytest.mark.slow
def test_transformers_without_a_run_logs_nowhere(
    trainer: Callable[..., Any], wandb: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb.finish()
    trainer(count=NEEDED + 2).train()
    said = capsys.readouterr().err
    assert "recorded 2 steps" in said
    assert "log the report" not in said
    assert "logged" not in said
