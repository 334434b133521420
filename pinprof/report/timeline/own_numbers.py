"""Splits args into the ids of single events and texts that many events share."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pinprof.trace.tables import Int64s

OWN = ("External id", "correlation", "Ev Idx", "Record function id", "Sequence number", "Python id", "Python parent id")
"""Args whose number differs in each event."""
LARGEST = 1 << 52
"""JavaScript does not keep larger numbers exactly; these stay in the texts."""

SEPARATOR = b"\0"
"""A byte that JSON does not contain."""
NUMBER = re.compile(
    rb'": (?:%b)(\d+)(?=[,}\s])' % b"|".join(b'(?<="%b": )' % key.encode() for key in OWN)
)  # begins with what is the same for all: a search for that is fast
PLACEHOLDER = b'": 0'
KEY = re.compile(rb'"(%b)": 0(?=[,}\s])' % "|".join(OWN).encode())


class Split(NamedTuple):
    """The args of some events."""

    texts: list[bytes]
    """JSON, with 0 in place of each id."""
    numbers: Int64s
    """The ids, in the order of the events and their texts."""


def split(args: Sequence[bytes | msgspec.Raw]) -> Split:
    """Split args, which are JSON. Raises ValueError if they are of an unusual form."""
    pieces = NUMBER.split(SEPARATOR.join(args))
    texts = PLACEHOLDER.join(pieces[::2]).split(SEPARATOR)
    try:
        numbers = np.array(msgspec.json.decode(b"[%b]" % b",".join(pieces[1::2]), type=list[int]), np.int64)
    except (msgspec.DecodeError, OverflowError) as error:
        raise ValueError(str(error)) from error
    if len(texts) != len(args) or numbers.max(initial=0) >= LARGEST:
        raise ValueError("bytes that are not JSON, or a number that is too large")
    return Split(texts, numbers)


def own_keys(text: bytes, args: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the keys of the ids that `split` took from a text, None if some of them lie deeper in the args."""
    keys = tuple(key.decode() for key in KEY.findall(text))
    return keys if keys == tuple(key for key, value in args.items() if key in OWN and type(value) is int) else None


def count_of_numbers(text: bytes) -> int:
    """Return how many ids `split` took from a text."""
    return len(KEY.findall(text))
