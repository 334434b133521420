"""The scripts of other people that pinprof is examined with: where each is, how it starts, and what a step of it is."""

from typing import Any

from scripts.examination.planting import swap
from scripts.examination.program import Program, UnknownProgramError

PETS = ("complete_cv_example.py", "--data_dir", "images")
IMAGENET = ("main.py", "--dummy", "--arch", "resnet18", "--batch-size", "32", "--workers", "14")
SPAWN = ("--multiprocessing-distributed", "--world-size", "1", "--rank", "0", "--dist-url", "tcp://127.0.0.1:29411")
GPT2 = ("train.py", "--dataset=openwebtext", "--eval_iters=5", "--log_interval=10")
ON_TWO_GPUS = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")

PROGRAMS = (
    Program(
        "dcgan",
        "examples",
        ("main.py", "--dataset", "fake", "--workers", "8", "--accel", "--niter", "100", "--outf", "out"),
        folder="dcgan",
        calls_per_step=2,  # the discriminator's and the generator's
    ),
    Program("imagenet", "examples", IMAGENET, folder="imagenet"),
    Program("mnist", "examples", ("main.py",), folder="mnist", data=("mnist@../data",)),
    Program(
        "word_language_model",
        "examples",
        ("main.py", "--accel"),
        folder="word_language_model",
        data=("wikitext",),
        marker="backward",
    ),
    Program("airbench94", "cifar10-airbench", ("legacy/airbench94.py",), data=("airbench",)),
    Program(
        "timm",
        "pytorch-image-models",
        (
            "train.py",
            "imagefolder",
            "--model",
            "resnet18",
            "--num-classes",
            "10",
            "-b",
            "64",
            "-j",
            "8",
            "--epochs",
            "300",
        ),
        data=("image_folder",),
    ),
    Program(
        "nanogpt_eager",
        "nanoGPT",
        ("train.py", "config/train_shakespeare_char.py", "--compile=False", "--eval_iters=20"),
        data=("shakespeare_char",),
    ),
    Program(
        "cleanrl_dqn", "cleanrl", ("cleanrl/dqn.py",), paths=(".",)
    ),  # ten actions of the player, then one step of training
    Program(
        "cleanrl_ppo", "cleanrl", ("cleanrl/ppo.py",), paths=(".",), calls_per_step=16
    ),  # an iteration: the rollout, then four epochs of four minibatches
    Program("vae", "examples", ("main.py",), folder="vae", data=("mnist@../data",)),
    Program("mnist_rnn", "examples", ("main.py", "--accel"), folder="mnist_rnn", data=("mnist@../data",)),
    Program("siamese_network", "examples", ("main.py",), folder="siamese_network", data=("mnist@../data",)),
    Program("mingpt", "minGPT", ("adder.py",), folder="projects/adder", paths=(".",)),
    Program("pytorch_cifar", "pytorch-cifar", ("main.py",), data=("cifar@data",), terminal=True, unchecked=True),
    Program(
        "llmc",
        "llm.c",
        (
            *(
                "train_gpt2.py",
                "--model",
                "d12",
                "--write_tensors",
                "0",
                "--num_iterations",
                "2000",
                "--dtype",
                "bfloat16",
            ),
            *("--input_bin", "tokens.bin", "--input_val_bin", "tokens.bin", "--val_loss_every", "50"),
            *("--sequence_length", "256", "--total_batch_size", "1024"),
        ),
        data=("tokens", "tokenizer"),
        paths=("stand_ins",),
    ),
    Program(
        "pyg_gcn",
        "pytorch_geometric",
        ("gcn.py", "--epochs", "20000"),
        folder="examples",
        data=("cora@../data/Planetoid",),
    ),
    Program("accelerate_cv", "accelerate", PETS, folder="examples", data=("pets", "resnet50d")),
    Program(
        "nanogpt_compiled",
        "nanoGPT",
        ("train.py", "config/train_shakespeare_char.py", "--eval_iters=20"),
        data=("shakespeare_char",),
    ),
    Program(
        "nanogpt_gpt2", "nanoGPT", (*GPT2, "--compile=False", "--gradient_accumulation_steps=4"), data=("openwebtext",)
    ),
    Program("imagenet_spawn", "examples", (*IMAGENET, *SPAWN), folder="imagenet"),
    Program(
        "accelerate_launch",
        "accelerate",
        ("-m", "accelerate.commands.launch", "--num_processes", "1", "--mixed_precision", "no", *PETS),
        folder="examples",
        data=("pets", "resnet50d"),
    ),
    Program("pyg_mutag", "pytorch_geometric", ("mutag_gin.py", "--epochs", "2000"), folder="examples", data=("mutag",)),
    Program("airbench94_compiled", "cifar10-airbench", ("legacy/airbench94_compiled.py",), data=("airbench",)),
    Program("imagenet_spawn_2", "examples", (*IMAGENET, *SPAWN), folder="imagenet", gpus=2),
    Program(
        "nanogpt_2",
        "nanoGPT",
        (*GPT2, "--compile=False", "--gradient_accumulation_steps=8"),
        data=("openwebtext",),
        gpus=2,
        launcher=ON_TWO_GPUS,
    ),
    Program(
        "fsdp2",
        "examples",
        ("example.py",),
        folder="distributed/FSDP2",
        gpus=2,
        launcher=ON_TWO_GPUS,
        # it makes ten steps
        pinprof_options=("--warmup", "1", "--max-warmup", "1", "--plain-steps", "3", "--steps", "1"),
    ),
)

SOON = ("--learning-starts", "1000")
OF_MNIST = ("mnist@../../data",)


def _tutorial(name: str, folder: str, **options: Any) -> Program:
    given: dict[str, Any] = {"data": OF_MNIST, **options}
    return Program(f"tutorial_{name}", "pytorch-tutorial", ("main.py",), folder=f"tutorials/{folder}", **given)


def _gan(name: str, optimizers: int = 2) -> Program:
    folder = f"implementations/{name}"
    return Program(
        f"gan_{name.removesuffix('_gan')}",
        "PyTorch-GAN",
        (f"{name}.py",),
        folder=folder,
        data=("mnist@../../data/mnist",),
        calls_per_step=optimizers,
    )


def _graph_network(name: str, *more: str, place: str = "Cora") -> Program:
    command = (f"{name}.py", *more)
    return Program(f"pyg_{name}", "pytorch_geometric", command, folder="examples", data=(f"cora@../data/{place}",))


def _makemore(kind: str) -> Program:
    return Program(
        f"makemore_{kind}", "makemore", ("makemore.py", "--device", "cuda", "--type", kind, "-o", f"out_{kind}")
    )


def _cifar100(net: str) -> Program:
    command = ("train.py", "-net", net, "-gpu")
    return Program(f"cifar100_{net}", "pytorch-cifar100", command, data=("cifar100@data",), unchecked=True)


def _pendulum(name: str) -> Program:
    command = (f"cleanrl/{name}.py", "--env-id", "Pendulum-v1", *SOON)
    return Program(f"cleanrl_{name.partition('_')[0]}", "cleanrl", command, paths=(".",))


def _imagenet(arch: str) -> Program:
    command = tuple(arch if part == "resnet18" else part for part in IMAGENET)
    return Program(f"imagenet_{arch}", "examples", command, folder="imagenet")


MORE = (
    _tutorial("feedforward", "01-basics/feedforward_neural_network"),
    _tutorial("logistic", "01-basics/logistic_regression"),
    _tutorial("cnn", "02-intermediate/convolutional_neural_network"),
    _tutorial("rnn", "02-intermediate/recurrent_neural_network"),
    _tutorial("two_way_rnn", "02-intermediate/bidirectional_recurrent_neural_network"),
    _tutorial("resnet", "02-intermediate/deep_residual_network", data=("cifar@../../data",), unchecked=True),
    _tutorial("language_model", "02-intermediate/language_model", data=("penn_treebank@data",)),
    _tutorial("gan", "03-advanced/generative_adversarial_network", calls_per_step=2),
    _tutorial("vae", "03-advanced/variational_autoencoder"),
    *(_gan(name) for name in ("aae", "acgan", "cgan", "ebgan", "gan", "lsgan", "sgan", "dcgan", "relativistic_gan")),
    _gan("infogan", optimizers=3),
    *(_makemore(kind) for kind in ("transformer", "rnn", "gru", "bow", "mlp")),
    Program("lecture_gpt", "ng-video-lecture", ("gpt.py",)),
    Program("lecture_bigram", "ng-video-lecture", ("bigram.py",)),
    *(_cifar100(net) for net in ("resnet18", "mobilenetv2", "shufflenetv2", "densenet121")),
    Program(
        "cifar_resnet20",
        "pytorch_resnet_cifar10",
        ("trainer.py", "--arch", "resnet20", "--save-dir", "out"),
        data=("cifar@data",),
        unchecked=True,
    ),
    *(_graph_network(name) for name in ("dna", "gcn2_cora", "super_gat")),
    *(_graph_network(name, "--epochs", "20000", place="Planetoid") for name in ("gat", "autoencoder")),
    Program("cleanrl_c51", "cleanrl", ("cleanrl/c51.py", *SOON), paths=(".",)),
    *(_pendulum(f"{name}_continuous_action") for name in ("ddpg", "td3", "sac")),
    *(_imagenet(arch) for arch in ("mobilenet_v2", "resnet50", "squeezenet1_1")),
    Program(
        "word_transformer",
        "examples",
        ("main.py", "--accel", "--model", "Transformer", "--lr", "5"),
        folder="word_language_model",
        data=("wikitext",),
        marker="backward",
    ),
    Program("forward_forward", "examples", ("main.py",), folder="mnist_forward_forward", data=("mnist@data",)),
)
"""More scripts whose steps estimates are learned from; they are not examined."""

TABLE = (
    "pytorch-fm",
    ("main.py", "--dataset_name", "movielens1M", "--dataset_path", "ratings.dat", "--model_name", "wd"),
)
SMALL_BERT = ("-c", "corpus.txt", "-v", "words", "-o", "bert", "-hs", "64", "-l", "2", "-a", "4", "-b", "16", "-w", "2")
SMALL_INFORMER = ("--seq_len", "24", "--label_len", "12", "--pred_len", "12", "--d_model", "64", "--d_ff", "64")
SHORT_EPISODES = ("--env", "Pendulum", "--start_timesteps", "300", "--batch_size", "64")

UNSEEN = (
    Program("tcn_adding", "TCN", ("add_test.py", "--seq_len", "100"), folder="TCN/adding_problem"),
    Program("tcn_copying", "TCN", ("copymem_test.py", "--blank_len", "100"), folder="TCN/copy_memory"),
    Program("tcn_pixels", "TCN", ("pmnist_test.py",), folder="TCN/mnist_pixel", data=("mnist@data/mnist",)),
    Program("pygcn", "pygcn", ("train.py",), folder="pygcn", paths=(".",), data=("citations",)),
    Program(
        "factorization",
        *TABLE,
        folder="examples",
        paths=(".",),
        data=("ratings@.",),
        repairs=(swap("self.items = ", "np.int)", "int)", file="../torchfm/dataset/movielens.py"),),
    ),
    Program(
        "neural_filtering",
        "NCF",
        ("main.py",),
        data=("rated_pairs",),
        repairs=(swap("main_path", "'/home/share/guoyangyang/recommendation/NCF-Data/'", "'./'", file="config.py"),),
    ),
    Program(
        "sasrec",
        "SASRec.pytorch",
        ("main.py", "--dataset=Video", "--train_dir=default", "--maxlen=50"),
        folder="python",
    ),
    Program(
        "mnist_diffusion",
        "Conditional_Diffusion_MNIST",
        ("script.py",),
        data=("mnist@data",),
        repairs=(swap("batch_size = 256", "256", "16"),),
    ),
    Program("td3", "TD3", ("main.py", *SHORT_EPISODES), data=("games",), paths=("stand_ins",), calls_per_step=3),
    Program(
        "soft_actor_critic",
        "pytorch-soft-actor-critic",
        ("main.py", "--cuda", "--batch_size", "64", "--start_steps", "1000"),
        data=("games",),
        paths=("stand_ins",),
        calls_per_step=2,
    ),
    Program(
        "ppo",
        "PPO-PyTorch",
        ("train.py",),
        data=("games",),
        paths=("stand_ins",),
        repairs=(swap("update_timestep = ", "max_ep_len * 4", "500"),),
    ),
    Program("bert", "BERT-pytorch", ("start.py", *SMALL_BERT), data=("sentence_pairs",)),
    Program(
        "informer",
        "Informer2020",
        ("main_informer.py", "--model", "informer", "--data", "ETTh1", "--use_amp", *SMALL_INFORMER),
        data=("hours",),
        repairs=(swap("self.val_loss_min = np.Inf", "Inf", "inf", file="utils/tools.py"),),
    ),
    Program(
        "cutout",
        "Cutout",
        ("train.py", "--batch_size", "16", "--data_augmentation", "--cutout"),
        data=("cifar@data",),
        unchecked=True,
        repairs=(swap("filename = ", "'logs/' + ", ""),),
    ),
    Program("copying_transformer", "x-transformers", ("train_copy.py",), paths=(".",)),
    Program(
        "speaker",
        "PyTorch_Speaker_Verification",
        ("train_speech_embedder.py",),
        data=("utterances",),
        paths=("stand_ins",),
        repairs=(swap("docs = yaml", "(stream)", "(stream, yaml.Loader)", file="hparam.py"),),
    ),
    Program("flows", "pytorch-flows", ("main.py", "--dataset", "MOONS")),
    Program(
        "vqvae",
        "vq-vae-2-pytorch",
        ("train_vqvae.py", "--size", "32", "imagefolder/train"),
        data=("image_folder",),
        repairs=(swap("dataset, batch_size=", "128 //", "16 //"), swap("range=(-1, 1)", "range", "value_range")),
    ),
    Program(
        "sam",
        "sam",
        ("train.py", "--batch_size", "16", "--width_factor", "1"),
        folder="example",
        data=("cifar@data", "cifar@cifar"),
        unchecked=True,
        repairs=(
            swap("data = torch.cat(", "DataLoader(train_set)", "DataLoader(train_set, 500)", file="data/cifar.py"),
        ),
    ),
    Program(
        "pointnet",
        "pointnet.pytorch",
        ("train_classification.py", "--dataset", "shapes", "--num_points", "256", "--batchSize", "8"),
        folder="utils",
        paths=(".",),
        data=("shapes@.",),
    ),
)
"""Scripts that nobody looked at while `pinprof fix` was made, for the held-out part of its exam; traces/EXAM.md names
each repository with its commit."""


def program(name: str) -> Program:
    """Return the program of this name."""
    known = {entry.name: entry for entry in (*PROGRAMS, *MORE, *UNSEEN)}
    if name not in known:
        raise UnknownProgramError(f"no program {name}; there are: {', '.join(known)}")
    return known[name]
