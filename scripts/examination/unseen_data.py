"""Made-up data, and stand-ins for packages, of the scripts that nobody looked at while `pinprof fix` was made."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

RATERS, RATED, RATINGS = 600, 900, 20_000
SENTENCES, VOCABULARY = 2_000, 500
HOURS = 20 * 30 * 24  # twenty months, as the reader cuts them
SPEAKERS, UTTERANCES, MELS, FRAMES = 40, 8, 40, 180
SHAPES, POINTS = 60, 400
NEGATIVES = 99
DICTIONARY, SHARE_OF_WORDS = 200, 0.05  # of a paper

Generator = np.random.Generator
Maker = Callable[[Path, Path, Generator], None]

GAMES = '''"""A made-up game under the name of an old package: its states and rewards are random."""

import numpy as np


class Box:
    def __init__(self, size):
        self.shape, self.low, self.high = (size,), -np.ones(size, np.float32), np.ones(size, np.float32)
        self.drawn = np.random.RandomState(0)

    def seed(self, seed):
        self.drawn = np.random.RandomState(seed)

    def sample(self):
        return self.drawn.uniform(-1, 1, self.shape).astype(np.float32)


class Game:
    _max_episode_steps = 50

    def __init__(self):
        self.observation_space, self.action_space, self.steps = Box(8), Box(2), 0

    def seed(self, seed):
        self.observation_space.seed(seed)

    def reset(self):
        self.steps = 0
        return self.observation_space.sample()

    def step(self, action):
        self.steps += 1
        return self.observation_space.sample(), float(np.sum(action)), self.steps >= self._max_episode_steps, {}

    def close(self):
        pass


def make(_name):
    return Game()
'''

START = '''"""Starts the training as its console script does, after the words of the corpus were counted."""

import os

from bert_pytorch.__main__ import train
from bert_pytorch.dataset.vocab import WordVocab

if not os.path.exists("words"):
    with open("corpus.txt") as corpus:
        WordVocab(corpus).save_vocab("words")
train()
'''


def games(repository: Path, _folder: Path, _made_up: Generator) -> None:
    """Write packages of games that need nothing."""
    _stand_in(repository, "gym", GAMES)
    _stand_in(repository, "roboschool", "")


def utterances(repository: Path, folder: Path, made_up: Generator) -> None:
    """Write spectrograms of speakers, and a package of sounds that is only imported."""
    _stand_in(repository, "librosa", "")
    (folder / "train_tisv").mkdir()
    for speaker in range(SPEAKERS):
        spoken = made_up.standard_normal((UTTERANCES, MELS, FRAMES)).astype(np.float32)
        np.save(folder / f"train_tisv/speaker{speaker}.npy", spoken)


def _stand_in(repository: Path, package: str, text: str) -> None:
    place = repository / "stand_ins" / package
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(text)


def citations(repository: Path, _folder: Path, made_up: Generator) -> None:
    """Write the words of the papers whose citations the repository has."""
    cora = repository / "data/cora"
    papers = sorted({paper for line in (cora / "cora.cites").read_text().splitlines() for paper in line.split()})
    words = made_up.random((len(papers), DICTIONARY)) < SHARE_OF_WORDS
    topics = made_up.integers(0, 7, len(papers))
    rows = zip(papers, words.astype(int).tolist(), topics.tolist(), strict=True)
    (cora / "cora.content").write_text(
        "".join(f"{paper}\t{' '.join(map(str, row))}\ttopic{topic}\n" for paper, row, topic in rows)
    )


def ratings(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write ratings of films as MovieLens has them."""
    rows = np.stack([made_up.integers(1, most + 1, RATINGS) for most in (RATERS, RATED, 5, 10**9)], axis=1)
    (folder / "ratings.dat").write_text("".join("::".join(map(str, row)) + "\n" for row in rows.tolist()))


def rated_pairs(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write who rated what, and for each of some raters what they did not."""
    rows = np.stack([made_up.integers(0, most, RATINGS) for most in (RATERS, RATED, 5, 10**9)], axis=1)
    (folder / "ml-1m.train.rating").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows.tolist()))
    films = made_up.integers(0, RATED, (RATERS, NEGATIVES)).tolist()
    lines = [f"({rater}, {rater})\t" + "\t".join(map(str, films[rater])) + "\n" for rater in range(RATERS)]
    (folder / "ml-1m.test.negative").write_text("".join(lines))


def sentence_pairs(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write pairs of sentences, and what starts the training."""
    words = made_up.integers(0, VOCABULARY, (SENTENCES, 2, 8)).tolist()
    lines = ["\t".join(" ".join(f"w{word}" for word in part) for part in pair) for pair in words]
    (folder / "corpus.txt").write_text("\n".join(lines) + "\n")
    (folder / "start.py").write_text(START)


def hours(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write seven hourly readings of a transformer station."""
    import pandas as pd  # noqa: PLC0415  # only this maker needs it

    place = folder / "data/ETT"
    place.mkdir(parents=True)
    columns = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
    table = pd.DataFrame(made_up.standard_normal((HOURS, len(columns))), columns=list(columns))
    table.insert(0, "date", pd.date_range("2016-07-01", periods=HOURS, freq="h").astype(str))
    table.to_csv(place / "ETTh1.csv", index=False)


def shapes(_repository: Path, folder: Path, made_up: Generator) -> None:
    """Write clouds of points of two kinds of things, as ShapeNet has them."""
    kinds = {"Airplane": "02691156", "Chair": "03001627"}
    place = folder / "shapes"
    (place / "train_test_split").mkdir(parents=True)
    (place / "synsetoffset2category.txt").write_text("".join(f"{name}\t{code}\n" for name, code in kinds.items()))
    names = [f"shape_data/{code}/{number}" for code in kinds.values() for number in range(SHAPES)]
    for split in ("train", "test"):
        (place / f"train_test_split/shuffled_{split}_file_list.json").write_text(json.dumps(names))
    for code in kinds.values():
        (place / code / "points").mkdir(parents=True)
        (place / code / "points_label").mkdir()
        for number in range(SHAPES):
            np.savetxt(place / code / f"points/{number}.pts", made_up.standard_normal((POINTS, 3)))
            np.savetxt(place / code / f"points_label/{number}.seg", made_up.integers(1, 4, POINTS), fmt="%d")


UNSEEN_MAKERS: tuple[Maker, ...] = (
    *(games, utterances, citations, ratings, rated_pairs, sentence_pairs, hours, shapes),
)
