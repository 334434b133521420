"""Made-up data in the formats that the examined scripts read: of the real sizes where a step depends on them.

And stand-ins for packages that some of them import.
"""

import pickle
import shutil
import struct
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

MNIST_IMAGES = {"train": 60_000, "t10k": 10_000}
CIFAR_IMAGES = {"train": 50_000, "test": 10_000}
CIFAR_FILES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
CLASSES = tuple(f"class{number}" for number in range(10))
WORDS, LINES, WORDS_PER_LINE = 33_000, 24_000, 25
TOKENS = 2_000_000
PICTURES, DISTINCT_PICTURES = 3_200, 20
TRAIN_PICTURES, VALIDATION_PICTURES = 640, 256  # of timm: epochs of ten steps of 64
SHARE_OF_WORDS = 0.0127  # of Cora's dictionary, in a paper
SENTENCES, VOCABULARY = 2_000, 500

Generator = np.random.Generator
Maker = Callable[[Path, Path, Generator], None]


def mnist(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write the four files of MNIST, in the IDX format."""
    raw = folder / "MNIST/raw"
    raw.mkdir(parents=True)
    for split, count in MNIST_IMAGES.items():
        images = made_up.integers(0, 256, (count, 28, 28), np.uint8)
        labels = made_up.integers(0, 10, count, np.uint8)
        (raw / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + images.tobytes())
        (raw / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + labels.tobytes())


def wikitext(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write the three texts of wikitext-2, shorter, with as many different words."""
    texts = folder / "data/wikitext-2"
    texts.mkdir(parents=True, exist_ok=True)
    for split, lines in (("train", LINES), ("valid", LINES // 40), ("test", LINES // 40)):
        (texts / f"{split}.txt").write_text("".join(f" {line} \n" for line in _lines(made_up, WORDS, lines)))


def _lines(made_up: Generator, words: int, lines: int) -> list[str]:
    """Return lines of made-up words, `words` of them different."""
    return [" ".join(f"w{word}" for word in line) for line in made_up.integers(0, words, (lines, WORDS_PER_LINE))]


def airbench(repository: Path, _folder: Path, made_up: Generator) -> None:
    """Write CIFAR-10 as airbench keeps it."""
    (repository / "cifar10").mkdir()
    for split, count in CIFAR_IMAGES.items():
        images = torch.from_numpy(made_up.integers(0, 256, (count, 32, 32, 3), np.uint8))
        labels = torch.from_numpy(made_up.integers(0, 10, count))
        data = {"images": images, "labels": labels, "classes": list(CLASSES)}
        torch.save(data, repository / "cifar10" / f"{split}.pt")


def cifar(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write the pickled batches of CIFAR-10."""
    batches = folder / "cifar-10-batches-py"
    batches.mkdir(parents=True)
    for name in CIFAR_FILES:
        data = made_up.integers(0, 256, (10_000, 3072), np.uint8)
        labels = made_up.integers(0, 10, 10_000).tolist()
        (batches / name).write_bytes(pickle.dumps({"data": data, "labels": labels}))
    (batches / "batches.meta").write_bytes(pickle.dumps({"label_names": list(CLASSES)}))


def shakespeare_char(repository: Path, _folder: Path, made_up: Generator) -> None:
    """Write tokens of nanoGPT's characters."""
    _nanogpt(repository / "data/shakespeare_char", 65, made_up)
    meta = pickle.dumps({"vocab_size": 65, "itos": {}, "stoi": {}})
    (repository / "data/shakespeare_char/meta.pkl").write_bytes(meta)


def openwebtext(repository: Path, _folder: Path, made_up: Generator) -> None:
    """Write tokens of GPT-2 for nanoGPT."""
    _nanogpt(repository / "data/openwebtext", 50_257, made_up)


def _nanogpt(folder: Path, vocabulary: int, made_up: Generator) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "val"):
        made_up.integers(0, vocabulary, TOKENS, np.uint16).tofile(folder / f"{split}.bin")


def tokens(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write tokens of GPT-2 for llm.c: a header of 256 numbers, then the tokens."""
    header = np.zeros(256, np.int32)
    header[:3] = 20240520, 1, TOKENS
    (folder / "tokens.bin").write_bytes(header.tobytes() + made_up.integers(0, 50_257, TOKENS, np.uint16).tobytes())


TOKENIZER = '''"""A made-up tokenizer under GPT-2's name: the real one's words come from the network."""


def gpt2():
    words = [bytes([first]) for first in range(256)]
    words += [bytes([first, second]) for first in range(256) for second in range(256)]
    ranks = {word: rank for rank, word in enumerate(words[:50256])}
    return {
        "name": "gpt2",
        "explicit_n_vocab": 50257,
        "pat_str": r"\\S+|\\s+",
        "mergeable_ranks": ranks,
        "special_tokens": {"<|endoftext|>": 50256},
    }


ENCODING_CONSTRUCTORS = {"gpt2": gpt2}
'''


def tokenizer(repository: Path, _folder: Path, _made_up: Generator) -> None:
    """Write a tokenizer that needs no network, where tiktoken looks for its own."""
    package = repository / "stand_ins/tiktoken_ext"
    package.mkdir(parents=True)
    (package / "openai_public.py").write_text(TOKENIZER)


def cora(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write the raw files of Cora: 2708 papers, the last 1000 of them to test with."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415  # only this maker needs it

    raw = folder / "Cora/raw"
    raw.mkdir(parents=True)
    papers, tested, taught = 2708, 1000, 140
    words = (made_up.random((papers, 1433)) < SHARE_OF_WORDS).astype(np.float32)
    topics = np.eye(7, dtype=np.int32)[made_up.integers(0, 7, papers)]
    cites: dict[int, list[int]] = defaultdict(list)
    for one, other in made_up.integers(0, papers, (5278, 2)).tolist():
        cites[one].append(other)
        cites[other].append(one)
    others = papers - tested
    rows = {"": slice(taught), "t": slice(others, papers), "all": slice(others)}
    parts: dict[str, object] = {f"{prefix}x": csr_matrix(words[part]) for prefix, part in rows.items()}
    parts |= {f"{prefix}y": topics[part] for prefix, part in rows.items()} | {"graph": cites}
    for name, part in parts.items():
        (raw / f"ind.cora.{name}").write_bytes(pickle.dumps(part))
    (raw / "ind.cora.test.index").write_text("".join(f"{paper}\n" for paper in made_up.permutation(tested) + others))


def pets(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write photographs of pets, many under several names."""
    _pictures(folder / "images", [f"breed{number % 37}_{number}.jpg" for number in range(PICTURES)], made_up)


def image_folder(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write photographs in folders named after what they show, to train and to validate with."""
    for split, count in (("train", TRAIN_PICTURES), ("validation", VALIDATION_PICTURES)):
        names = [f"{CLASSES[number % len(CLASSES)]}/{number}.jpg" for number in range(count)]
        _pictures(folder / "imagefolder" / split, names, made_up)


def _pictures(folder: Path, names: list[str], made_up: Generator) -> None:
    from PIL import Image  # noqa: PLC0415  # only pictures need it

    folder.mkdir(parents=True)
    coarse = [Image.fromarray(made_up.integers(0, 256, (25, 30, 3), np.uint8)) for _ in range(DISTINCT_PICTURES)]
    for number, image in enumerate(coarse):
        image.resize((300, 250)).save(folder / f"{number}.tmp", "JPEG", quality=90)
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(folder / f"{number % DISTINCT_PICTURES}.tmp", folder / name)
    for leftover in folder.glob("*.tmp"):
        leftover.unlink()


def resnet50d(_repository: Path, folder: Path, _made_up: Generator) -> None:
    """Write random weights where huggingface_hub keeps those that it has fetched."""
    from safetensors.torch import save_file  # noqa: PLC0415  # only this maker needs them
    from timm import create_model  # noqa: PLC0415

    model = create_model("resnet50d")
    kept = folder / HUB / "hub" / f"models--{model.pretrained_cfg['hf_hub_id'].replace('/', '--')}"
    revision = "0" * 40
    (kept / "refs").mkdir(parents=True)
    (kept / "refs/main").write_text(revision)
    (kept / "snapshots" / revision).mkdir(parents=True)
    save_file(model.state_dict(), kept / "snapshots" / revision / "model.safetensors")


START = '''"""Starts the training as its console script does, after the words of the corpus were counted."""

import os

from bert_pytorch.__main__ import train
from bert_pytorch.dataset.vocab import WordVocab

if not os.path.exists("words"):
    with open("corpus.txt") as corpus:
        WordVocab(corpus).save_vocab("words")
train()
'''


def sentence_pairs(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write pairs of sentences, and what starts the training."""
    words = made_up.integers(0, VOCABULARY, (SENTENCES, 2, 8)).tolist()
    lines = ["\t".join(" ".join(f"w{word}" for word in part) for part in pair) for pair in words]
    (folder / "corpus.txt").write_text("\n".join(lines) + "\n")
    (folder / "start.py").write_text(START)


HUB = "hub"
"""The folder that HF_HOME names, in the program's."""

MAKERS: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        *(mnist, wikitext, airbench, cifar, shakespeare_char, openwebtext, tokens, tokenizer),
        *(cora, pets, image_folder, resnet50d, sentence_pairs),
    )
}


def make(name: str, repository: Path, folder: Path) -> None:
    """Make the data of this name, or `name@place` below the program's folder, unless it has been made."""
    maker, _, place = name.partition("@")
    if place:
        folder = (folder / place).resolve()
        folder.mkdir(parents=True, exist_ok=True)
    marker = (folder if place else repository) / f".made_up_{maker}"
    if not marker.exists():
        MAKERS[maker](repository, folder, np.random.default_rng(0))
        marker.touch()
