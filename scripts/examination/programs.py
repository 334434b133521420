"""The scripts of other people that pinprof is examined with: where each is, how it starts, and what a step of it is."""

from typing import Any

from scripts.examination.edits import Edit
from scripts.examination.program import Program, UnknownProgramError


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
LAUNCH = f"-m accelerate.commands.launch --num_processes 1 --mixed_precision no {PETS}"
ON_TWO_GPUS = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
TEN_STEPS = ("--warmup", "1", "--max-warmup", "1", "--plain-steps", "3", "--steps", "1")
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
    _program("nanogpt_gpt2", "nanoGPT", f"{GPT2} --gradient_accumulation_steps=4", data="openwebtext"),
    _program("imagenet_spawn", "examples", f"{IMAGENET} {SPAWN}", "imagenet"),
    _program("accelerate_launch", "accelerate", LAUNCH, "examples", "pets resnet50d"),
    _program("pyg_mutag", "pytorch_geometric", "mutag_gin.py --epochs 2000", "examples", "mutag"),
    _program("airbench94_compiled", "cifar10-airbench", "legacy/airbench94_compiled.py", data="airbench"),
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


def _tutorial(name: str, folder: str, data: str = "mnist@../../data", **options: Any) -> Program:
    return _program(f"tutorial_{name}", "pytorch-tutorial", "main.py", f"tutorials/{folder}", data, **options)


def _gan(name: str, optimizers: int = 2) -> Program:
    folder, data = f"implementations/{name}", "mnist@../../data/mnist"
    return _program(
        f"gan_{name.removesuffix('_gan')}", "PyTorch-GAN", f"{name}.py", folder, data, calls_per_step=optimizers
    )


def _graph_network(name: str, more: str = "", place: str = "Cora") -> Program:
    return _program(f"pyg_{name}", "pytorch_geometric", f"{name}.py {more}", "examples", f"cora@../data/{place}")


def _makemore(kind: str) -> Program:
    return _program(f"makemore_{kind}", "makemore", f"makemore.py --device cuda --type {kind} -o out_{kind}")


def _cifar100(net: str) -> Program:
    command = f"train.py -net {net} -gpu"
    return _program(f"cifar100_{net}", "pytorch-cifar100", command, data="cifar100@data", unchecked=True)


def _pendulum(name: str) -> Program:
    command = f"cleanrl/{name}_continuous_action.py --env-id Pendulum-v1 --learning-starts 1000"
    return _program(f"cleanrl_{name}", "cleanrl", command, paths=HERE)


def _imagenet(arch: str) -> Program:
    return _program(f"imagenet_{arch}", "examples", IMAGENET.replace("resnet18", arch), "imagenet")


MORE = (
    _tutorial("feedforward", "01-basics/feedforward_neural_network"),
    _tutorial("logistic", "01-basics/logistic_regression"),
    _tutorial("cnn", "02-intermediate/convolutional_neural_network"),
    _tutorial("rnn", "02-intermediate/recurrent_neural_network"),
    _tutorial("two_way_rnn", "02-intermediate/bidirectional_recurrent_neural_network"),
    _tutorial("resnet", "02-intermediate/deep_residual_network", "cifar@../../data", unchecked=True),
    _tutorial("language_model", "02-intermediate/language_model", "penn_treebank@data"),
    _tutorial("gan", "03-advanced/generative_adversarial_network", calls_per_step=2),
    _tutorial("vae", "03-advanced/variational_autoencoder"),
    *(_gan(name) for name in ("aae", "acgan", "cgan", "ebgan", "gan", "lsgan", "sgan", "dcgan", "relativistic_gan")),
    _gan("infogan", optimizers=3),
    *(_makemore(kind) for kind in ("transformer", "rnn", "gru", "bow", "mlp")),
    _program("lecture_gpt", "ng-video-lecture", "gpt.py"),
    _program("lecture_bigram", "ng-video-lecture", "bigram.py"),
    *(_cifar100(net) for net in ("resnet18", "mobilenetv2", "shufflenetv2", "densenet121")),
    _program(
        "cifar_resnet20",
        "pytorch_resnet_cifar10",
        "trainer.py --arch resnet20 --save-dir out",
        data="cifar@data",
        unchecked=True,
    ),
    *(_graph_network(name) for name in ("dna", "gcn2_cora", "super_gat")),
    *(_graph_network(name, "--epochs 20000", "Planetoid") for name in ("gat", "autoencoder")),
    _program("cleanrl_c51", "cleanrl", "cleanrl/c51.py --learning-starts 1000", paths=HERE),
    *map(_pendulum, ("ddpg", "td3", "sac")),
    *map(_imagenet, ("mobilenet_v2", "resnet50", "squeezenet1_1")),
    _program(
        "word_transformer",
        "examples",
        "main.py --accel --model Transformer --lr 5",
        "word_language_model",
        "wikitext",
        marker="backward",
    ),
    _program("forward_forward", "examples", "main.py", "mnist_forward_forward", "mnist@data"),
)
"""More scripts whose steps estimates are learned from; they are not examined."""


def program(name: str) -> Program:
    """Return the program of this name."""
    by_name = {entry.name: entry for entry in (*PROGRAMS, *MORE)}
    if name not in by_name:
        raise UnknownProgramError(f"no program {name}; there are: {', '.join(by_name)}")
    return by_name[name]
