"""Changes that people made to have their PyTorch programs faster: a row for each, with its public thread."""

import re
from dataclasses import dataclass

from scripts.examination.program import Edit, Program


@dataclass(frozen=True)
class Case:
    """One thread: a program before, its change, and what the thread says that this brought.

    `before` and `after` are commits of the repository, by default the one before after; without `after` the change is
    the short `edits`, from the thread. `repository` is by default the thread's; some have none. `harness` makes up data
    and starts the program; it lies in scripts/cases and runs as case.py. `rules` name the cause that the change
    removes, `where` its files or lines if other lines have the same. `brought`: from the thread, on its machine. `cut`:
    what is smaller here. `negative`: the thread saw nothing of it.
    """

    name: str
    thread: str
    harness: str
    arguments: tuple[str, ...]
    cause: str
    rules: tuple[str, ...]
    brought: str
    before: str = ""
    after: str = ""
    repository: str | None = None
    edits: tuple[Edit, ...] = ()
    repairs: tuple[Edit, ...] = ()
    cut: str = ""
    negative: bool = False
    files: tuple[str, ...] = (".py", ".json", ".txt", ".md")
    where: tuple[str, ...] = ()

    @property
    def commit_before(self) -> str:
        """The commit of the program before its change."""
        return self.before or (f"{self.after}^" if self.after else "")

    @property
    def clone(self) -> str:
        """The repository as OWNER/NAME; empty if the program is the harness alone."""
        return re.split("[#@]", self.thread)[0] if self.repository is None else self.repository

    @property
    def program(self) -> Program:
        """Return how its copy is run."""
        return Program(self.name, self.name, ("case.py", *self.arguments))

    @property
    def has_both_versions(self) -> bool:
        """Return whether one process runs both versions in turns."""
        return self.harness == REBUILT


REBUILT = "rebuilt"
"""The harness of programs that are written again from their threads."""
CHANGED = (Edit("case.py", "for _ in islice(program(", "False", "True"),)


def _rebuilt(name: str, thread: str, cause: str, rules: str, brought: str, *, negative: bool = False) -> Case:
    """Return a case of scripts/cases/rebuilt.py; `rules` has blanks between."""
    of_case = (name, thread, REBUILT, (name,), cause, tuple(rules.split()), brought)
    cut = "written again, with made-up data"
    return Case(*of_case, repository="", edits=CHANGED, cut=cut, negative=negative)


GPT2_EAGER = ("--compile=False", "--eval_interval=100000", "--eval_iters=2")
TRAIN = "train.py"
GPT2 = "train_gpt2.py"
NNUNET = "nnunetv2/training/nnUNetTrainer/nnUNetTrainer.py"
METAMATH = ("method_comparison/MetaMathQA/run.py", "method_comparison/MetaMathQA/utils.py")
TORCHBENCH = "torchbenchmark/util/framework/vision/model_factory.py"
TORCHBENCH_FILES = (
    *(TORCHBENCH, "torchbenchmark/util/framework/vision/args.py", "torchbenchmark/models/resnet50/__init__.py"),
    *("torchbenchmark/util/model.py", "torchbenchmark/tasks.py"),
)
TORCHBENCH_GRAPH = (
    Edit("case.py", "OPTIONS = ", "[]", '["--cudagraph"]'),
    Edit(TORCHBENCH, "self.optimizer = optim.Adam(", "parameters()", "parameters(), capturable=True"),
)

CASES = (
    Case(
        "nanogpt_prefetch",
        "karpathy/nanoGPT@3fd4c0c5",
        "nanogpt",
        (*GPT2_EAGER, "--gradient_accumulation_steps=1"),
        "batches are made and copied while the GPU waits",
        ("PIN101", "PIN102", "PIN402", "PIN603", "PIN604"),
        "1 ms a step",
        after="3fd4c0c5",
        cut="not compiled, one micro-batch",
    ),
    Case(
        "nanogpt_fused",
        "karpathy/nanoGPT@e170e408",
        "nanogpt",
        (*GPT2_EAGER, "--gradient_accumulation_steps=1"),
        "AdamW is not fused",
        ("PIN602",),
        "“much faster”",
        after="e170e408",
        cut="not compiled, one micro-batch",
    ),
    Case(
        "litgpt_fused",
        "Lightning-AI/litgpt#857",
        "tiny_llama",
        ("1", "22"),
        "AdamW with foreach=False",
        ("PIN602",),
        "2 to 3 ms",
        after="436b318e",
        cut="one GPU, not compiled, one micro-batch of 4",
    ),
    Case(
        "litgpt_syncs",
        "Lightning-AI/litgpt#1374",
        "litgpt_lora",
        ("24", "4", "512"),
        "indices copied in each layer, a count read by max()",
        ("PIN209", "PIN201", "PIN202"),
        "not told",
        after="47806045",
        cut="pythia-410m",
        where=("litgpt/lora.py", "litgpt/utils.py"),
    ),
    Case(
        "torchtune_loss",
        "pytorch/torchtune#522",
        "torchtune",
        ("8", "2", "512"),
        "loss.item() in each step for the progress bar",
        ("PIN201",),
        "40 to 50 ms a step",
        after="efa68eb8",
        cut="8 layers of 32",
    ),
    Case(
        "stylegan_items",
        "rosinality/style-based-gan-pytorch#50",
        "stylegan",
        ("made_up", "--mixing", "--init_size", "64", "--max_size", "64"),
        "four .item() in each step",
        ("PIN201",),
        "“increase training speed”",
        after="038db65",
        repairs=(Edit(TRAIN, "range=(-1, 1)", "range", "value_range"),),
        cut="pictures of 64 by 64",
    ),
    Case(
        "minimind_fused",
        "jingyaogong/minimind#843",
        "minimind",
        ("--from_weight", "none", "--num_workers", "4"),
        "AdamW is not fused",
        ("PIN602",),
        "“clearly faster”",
        edits=(
            Edit(
                "trainer/train_full_sft.py",
                "optimizer = optim.AdamW(",
                "lr=args.learning_rate",
                "lr=args.learning_rate, fused=('cuda' in args.device)",
            ),
        ),
        before="HEAD",
    ),
    Case(
        "nanotabpfn_pinned",
        "dev.to/stprnvsh: “Our GPU was idle 77 % of the time”",
        "nanotabpfn",
        ("64", "2000", "16"),
        "pageable copies that wait",
        ("PIN101", "PIN102", "PIN104"),
        "1.5 times",
        edits=(
            Edit(TRAIN, "x=x.to(", "x.to(self.device)", "x.pin_memory().to(self.device, non_blocking=True)"),
            Edit(TRAIN, "y=y.to(", "y.to(self.device)", "y.pin_memory().to(self.device, non_blocking=True)"),
        ),
        cut="2,000 rows, batches of 16",
        repository="automl/nanoTabPFN",
        before="HEAD",
    ),
    Case(
        "transformers_cache",
        "huggingface/transformers#31530",
        "trainer_cache",
        ("12", "8", "512"),
        "empty_cache() in each step",
        ("PIN303",),
        "“training slowdowns”",
        edits=(Edit("case.py", "EMPTIES_CACHE_EVERY = ", "1", "None"),),
        cut="GPT-2, today's Trainer with torch_empty_cache_steps=1",
        repository="",
    ),
    Case(
        "vision_anchors",
        "pytorch/vision#5515",
        "mask_rcnn",
        ("2", "512", "anchors"),
        "grid sizes copied from the host",
        ("PIN209", "PIN101", "PIN102"),
        "not told; 163 ms before",
        edits=(Edit("case.py", "APPLIED = ", "False", "True"),),
        repository="",
    ),
    Case(
        "maskrcnn_graph",
        "pytorch.org/blog, 2021-10-26",
        "mask_rcnn",
        ("1", "512", "graph"),
        "the GPU waits for launches of the backbone",
        ("PIN601",),
        "1.70 times",
        edits=(Edit("case.py", "APPLIED = ", "False", "True"),),
        cut="torchvision's",
        repository="",
    ),
    Case(
        "kpconv_synchronize",
        "HuguesTHOMAS/KPConv-PyTorch#22",
        "kpconv",
        ("10000", "30"),
        "synchronize() in each step",
        ("PIN210",),
        "25 %",
        edits=(
            Edit(
                "utils/trainer.py",
                "torch.cuda.synchronize(",
                "torch.cuda.synchronize(self.device)",
                "pass",
                within="for batch in training_loader",
            ),
        ),
        before="a101ed2",
    ),
    Case(
        "lanfactory_loss",
        "lnccbrown/LANfactory#120",
        "lanfactory",
        ("50000", "100"),
        "float(loss) in each step",
        ("PIN201",),
        "1.04 times in a benchmark",
        after="8a2721a",
        cut="two files",
    ),
    Case(
        "pytorch_tools_grads",
        "bonlime/pytorch-tools#94",
        "pytorch_tools",
        ("64", "224"),
        "gradients set to zero, not to None",
        ("PIN607",),
        "no improvement, 1 % worse",
        repairs=(
            Edit(
                "pytorch_tools/fit_wrapper/wrapper.py",
                "self.state.optimizer.zero_grad()",
                "zero_grad()",
                "zero_grad(set_to_none=False)",
            ),
            Edit("pytorch_tools/utils/misc.py", "elif not isinstance(p", "collections.", "collections.abc."),
        ),
        edits=(
            Edit(
                "pytorch_tools/fit_wrapper/wrapper.py",
                "self.state.optimizer.zero_grad(",
                "set_to_none=False",
                "set_to_none=True",
            ),
        ),
        negative=True,
        before="dd5ec06",
    ),
    Case(
        "torchbench_graph",
        "pytorch/benchmark#706, batch 4",
        "torchbench",
        ("4",),
        "the GPU waits for launches of the whole step",
        ("PIN601",),
        "94 → 71 ms",
        edits=TORCHBENCH_GRAPH,
        files=TORCHBENCH_FILES,
        before="e50b595b",
    ),
    Case(
        "torchbench_no_graph",
        "pytorch/benchmark#706, batch 64",
        "torchbench",
        ("64",),
        "the GPU waits for launches of the whole step",
        ("PIN601",),
        "561 → 562 ms",
        edits=TORCHBENCH_GRAPH,
        files=TORCHBENCH_FILES,
        negative=True,
        before="e50b595b",
    ),
    Case(
        "nnunet_grads",
        "MIC-DKFZ/nnUNet#1630",
        "nnunet",
        ("2", "128", "32"),
        "gradients set to zero, not to None",
        ("PIN611", "PIN607"),
        "“doesn't do much for run time”",
        repairs=(
            Edit(NNUNET, "self.optimizer.zero_grad()", "zero_grad()", "zero_grad(set_to_none=False)"),
            Edit("nnunetv2/training/lr_scheduler/polylr.py", "super().__init__(optimizer", ", False)", ")"),
        ),
        edits=(Edit(NNUNET, "self.optimizer.zero_grad(", "set_to_none=False", "set_to_none=True"),),
        files=(".py",),
        negative=True,
        before="b1c6b090^",
    ),
    Case(
        "modded_nanogpt_copies",
        "KellerJordan/modded-nanogpt#28",
        "modded_nanogpt",
        (),
        "pageable copies that wait",
        ("PIN101", "PIN102", "PIN104"),
        "“might even be making things worse”",
        repairs=(
            Edit(GPT2, "batch_size : int = ", "8", "1"),
            Edit(GPT2, "sequence_length : int = ", "64*1024", "12*1024"),
            Edit(GPT2, "num_iterations : int = ", "1875", "100_000"),
            Edit(GPT2, "val_loss_every : int = ", "125", "0"),
            Edit(GPT2, "val_tokens : int = ", "10485760", "12*1024"),
            Edit(GPT2, "result = subprocess.run(", "'nvidia-smi'", "'true'"),
            Edit(GPT2, "logdir = ", "logs/", "out/"),
            Edit(GPT2, "logfile = 'logs", "logs/", "out/"),
        ),
        edits=(
            Edit(
                GPT2,
                "buf = torch.tensor(",
                "buf.astype(np.int32), dtype=torch.long)",
                "buf.astype(np.int64), dtype=torch.long).pin_memory()",  # torch 2.11 pins no tensor made of an array
            ),
            Edit(GPT2, "return x.cuda()", "x.cuda(), y.cuda()", "x.cuda(non_blocking=True), y.cuda(non_blocking=True)"),
        ),
        cut="one GPU, not compiled, full causal attention, 12,288 tokens",
        files=(GPT2,),
        negative=True,
        before="77001e69",
    ),
    Case(
        "peft_garbage",
        "huggingface/peft#2894",
        "peft_metamath",
        ("16", "2048", "4"),
        "empty_cache() and gc.collect() in each step",
        ("PIN608", "PIN303"),
        "108 → 50 s",
        after="bc8d9c5e5",
        cut="a Llama of 16 layers, made up",
        files=METAMATH,
        before="3013aa34a^",
    ),
    Case(
        "med_al_ssl_pinned",
        "marrlab/Med-AL-SSL#17",
        "med_al_ssl",
        ("32",),
        "batches are not pinned",
        ("PIN101", "PIN102", "PIN104", "PIN105"),
        "“didn't see any change of run time”",
        repairs=(Edit("code/data/dataset_utils.py", "img_noisy = random_noise(", "seed=", "rng="),),
        edits=(Edit("code/train.py", "kwargs = ", "'pin_memory': False", "'pin_memory': True"),),
        cut="all pictures labelled, batches of 32",
        files=(".py",),
        where=("train.py",),
        negative=True,
        before="HEAD",
    ),
    _rebuilt(
        "clip_nonfinite",
        "deepmodeling/deepmd-kit#5519",
        "clip_grad_norm_ reads whether the norm is finite",
        "PIN202",
        "“bad GPU utilization”",
    ),
    _rebuilt(
        "metric_checks",
        "Lightning-AI/torchmetrics#2943",
        "metrics ask for NaN, and copy weights",
        "PIN202 PIN209",
        "several waits a step",
    ),
    _rebuilt("lr_tensor", "pytorch/pytorch#133662", "the rate of learning is read from the GPU", "PIN201", "not told"),
    _rebuilt(
        "cpu_mask",
        "pytorch/pytorch#156384",
        "a mask of the host is an index, twelve times",
        "PIN110 PIN205 PIN102 PIN101 PIN604",
        "not told",
    ),
    _rebuilt(
        "pin_images",
        "roboflow/rf-detr#1313",
        "16 pageable pictures, copied one by one",
        "PIN101 PIN102 PIN106 PIN104",
        "7 to 10 % of predict()",
    ),
    _rebuilt(
        "batched_muon",
        "KellerJordan/modded-nanogpt, records",
        "Muon updates one matrix after the other",
        "PIN607 PIN601",
        "not told",
    ),
    _rebuilt(
        "garbage_collection",
        "pytorch/torchtitan#148",
        "garbage is collected when Python decides",
        "PIN608",
        "1.5 % on 512 GPUs",
    ),
    _rebuilt(
        "fused_adam", "deepmodeling/deepmd-kit#4463", "Adam updates each tensor by itself", "PIN602", "922 → 892 ms"
    ),
    _rebuilt(
        "empty_cache", "huggingface/transformers#31546", "empty_cache() in each step", "PIN303", "slower, no figure"
    ),
    _rebuilt(
        "rotary",
        "huggingface/diffusers#11030",
        "repeat_interleave without output_size, of a number of the host",
        "PIN207",
        "“no noticeable difference”",
        negative=True,
    ),
    _rebuilt(
        "loader_workers",
        "Lightning-AI/pytorch-lightning#17410",
        "a loader without workers, of data in memory",
        "PIN401 PIN402 PIN403",
        "workers are “unreasonably slow”",
        negative=True,
    ),
    _rebuilt(
        "own_prefetcher",
        "Deci-AI/super-gradients#1990",
        "batches are copied on the stream of the kernels",
        "PIN101 PIN102 PIN301 PIN302",
        "nothing with workers",
        negative=True,
    ),
    _rebuilt(
        "many_waits",
        "roboflow/rf-detr#1492",
        "twelve .item() in a step that the GPU bounds",
        "PIN201",
        "0.23 %",
        negative=True,
    ),
    _rebuilt(
        "decoded_images",
        "nerfstudio-project/gsplat#1062",
        "workers decode and straighten a picture for each step",
        "PIN401 PIN403",
        "13.9 → 9.8 ms",
    ),
    _rebuilt(
        "host_noise",
        "nianticlabs/monodepth2#413",
        "random numbers are made on the host, and copied",
        "PIN604 PIN101 PIN102 PIN106",
        "“10%+ faster”",
    ),
    _rebuilt(
        "type_masks",
        "deepmodeling/deepmd-kit#3361",
        "a mask that chooses all rows is an index, for each type",
        "PIN205",
        "some 3 ms a step",
    ),
    _rebuilt(
        "time_steps",
        "facebookresearch/tbsm#1",
        "a module takes 21 times one after the other",
        "PIN607 PIN601",
        "2.2 times",
    ),
    _rebuilt(
        "cache_per_batch",
        "batra-mlp-lab/visdial-challenge-starter-pytorch#34",
        "empty_cache() after each batch",
        "PIN303",
        "“speedup”, no figure",
    ),
    _rebuilt(
        "gan_losses",
        "jolibrain/joliGEN#374",
        "eight losses are read in each step, to be printed in one of 100",
        "PIN201",
        "time of the loop “divided by 2”",
    ),
    _rebuilt(
        "fused_scaler",
        "pytorch/pytorch#96755",
        "AdamW is not fused, behind a GradScaler",
        "PIN602",
        "389.37 → 389.41 samples/s",
        negative=True,
    ),
    _rebuilt(
        "pinned_text",
        "allenai/allennlp#4670",
        "eight pageable tensors are copied in each step",
        "PIN101 PIN102 PIN104 PIN106",
        "“an overall slow down”",
        negative=True,
    ),
)
