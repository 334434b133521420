"""The scripts of other people that pinprof is examined with: where each is, how it starts, and what a step of it is."""

from typing import Any

from scripts.examination.program import Edit, Program


def _program(name: str, repository: str, command: str, folder: str = ".", data: str = "", **options: Any) -> Program:
    """Return a program; its command and its data are words with blanks between."""
    return Program(name, repository, tuple(command.split()), folder, data=tuple(data.split()), **options)


HERE = (".",)
STAND_INS = ("stand_ins",)
MNIST = "mnist@../data"
PETS = "complete_cv_example.py --data_dir images"
IMAGENET = "main.py --dummy --arch resnet18 --batch-size 32 --workers 14"
SPAWN = "--multiprocessing-distributed --world-size 1 --rank 0 --dist-url tcp://127.0.0.1:29411"
GPT2 = "train.py --dataset=openwebtext --eval_iters=5 --log_interval=10 --compile=False"
SHAKESPEARE = "train.py config/train_shakespeare_char.py"
LLMC = (
    "train_gpt2.py --model d12 --write_tensors 0 --num_iterations 2000 --dtype bfloat16 --input_bin tokens.bin "
    "--input_val_bin tokens.bin --val_loss_every 50 --sequence_length 256 --total_batch_size 1024"
)
ON_TWO_GPUS = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
TEN_STEPS = ("--warmup", "1", "--steps", "1")
"""For a program that makes ten steps."""
DCGAN = "main.py --dataset fake --workers 8 --accel --niter 100 --outf out"
TIMM = "train.py imagefolder --model resnet18 --num-classes 10 -b 64 -j 8 --epochs 300"
SMALL_BERT = "start.py -c corpus.txt -v words -o bert -hs 64 -l 2 -a 4 -b 16 -w 2"
SMALL_VQVAE = "train_vqvae.py --size 32 imagefolder/train"
VQVAE_REPAIRS = (
    Edit("train_vqvae.py", "dataset, batch_size=", "128 //", "16 //"),
    Edit("train_vqvae.py", "range=(-1, 1)", "range", "value_range"),
)
DIFFUSION_REPAIRS = (Edit("script.py", "batch_size = 256", "256", "16"),)

PROGRAMS = (
    _program("dcgan", "examples", DCGAN, "dcgan", calls_per_step=2),  # the discriminator's and the generator's
    _program("imagenet", "examples", IMAGENET, "imagenet"),
    _program("mnist", "examples", "main.py", "mnist", MNIST),
    _program(
        "word_language_model", "examples", "main.py --accel", "word_language_model", "wikitext", marker="backward"
    ),
    _program("airbench94", "cifar10-airbench", "legacy/airbench94.py", data="airbench"),
    _program("timm", "pytorch-image-models", TIMM, data="image_folder"),
    _program("nanogpt_eager", "nanoGPT", f"{SHAKESPEARE} --compile=False --eval_iters=20", data="shakespeare_char"),
    _program("cleanrl_dqn", "cleanrl", "cleanrl/dqn.py", paths=HERE),  # ten actions, then one step of training
    # an iteration: the rollout, then four epochs of four minibatches
    _program("cleanrl_ppo", "cleanrl", "cleanrl/ppo.py", paths=HERE, calls_per_step=16),
    _program("vae", "examples", "main.py", "vae", MNIST),
    _program("mnist_rnn", "examples", "main.py --accel", "mnist_rnn", MNIST),
    _program("siamese_network", "examples", "main.py", "siamese_network", MNIST),
    _program("mingpt", "minGPT", "adder.py", "projects/adder", paths=HERE),
    _program("pytorch_cifar", "pytorch-cifar", "main.py", data="cifar@data", terminal=True, unchecked=True),
    _program("llmc", "llm.c", LLMC, data="tokens tokenizer", paths=STAND_INS),
    _program("pyg_gcn", "pytorch_geometric", "gcn.py --epochs 20000", "examples", "cora@../data/Planetoid"),
    _program("accelerate_cv", "accelerate", PETS, "examples", "pets resnet50d"),
    _program("nanogpt_compiled", "nanoGPT", f"{SHAKESPEARE} --eval_iters=20", data="shakespeare_char"),
    _program("imagenet_spawn", "examples", f"{IMAGENET} {SPAWN}", "imagenet"),
    _program("imagenet_spawn_2", "examples", f"{IMAGENET} {SPAWN}", "imagenet", gpus=2),
    _program(
        "nanogpt_2",
        "nanoGPT",
        f"{GPT2} --gradient_accumulation_steps=8",
        data="openwebtext",
        gpus=2,
        launcher=ON_TWO_GPUS,
    ),
    _program(
        "fsdp2",
        "examples",
        "example.py",
        "distributed/FSDP2",
        gpus=2,
        launcher=ON_TWO_GPUS,
        pinprof_options=TEN_STEPS,
    ),
    _program("tcn_adding", "TCN", "add_test.py --seq_len 100", "TCN/adding_problem"),
    _program("sasrec", "SASRec.pytorch", "main.py --dataset=Video --train_dir=default --maxlen=50", "python"),
    _program(
        "mnist_diffusion", "Conditional_Diffusion_MNIST", "script.py", ".", "mnist@data", repairs=DIFFUSION_REPAIRS
    ),
    _program("bert", "BERT-pytorch", SMALL_BERT, ".", "sentence_pairs"),
    _program("vqvae", "vq-vae-2-pytorch", SMALL_VQVAE, ".", "image_folder", repairs=VQVAE_REPAIRS),
)

NAMED_PROGRAMS = {program.name: program for program in PROGRAMS}
