"""Scripts of other people that nobody looked at while `pinprof fix` was made: for the held-out part of its exam."""

from scripts.examination.planting import swap
from scripts.examination.program import Program

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
"""Each repository is named in traces/EXAM.md, with its commit."""
