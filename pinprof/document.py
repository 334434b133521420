"""The parts of JSON documents: fields with a meaning and a unit; how a document is filled and written."""

import errno
import json
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from pinprof.ground.units import ms

PLACE_FIELDS = ("file", "line", "function")
NOT_IN_OLDER = Meta(extra_json_schema={"default": None})
"""For a field that documents of older versions lack: it may be UNSET when it is read, and is always written."""
Count: TypeAlias = Annotated[int, Meta(ge=0)]
ByteSize: TypeAlias = Annotated[int, Meta(ge=0, extra_json_schema={"unit": "bytes"})]
Range: TypeAlias = Annotated[Sequence[float], Meta(min_length=2, max_length=2)]
"""The low and the high end."""
Words: TypeAlias = Annotated[str, Meta(extra_json_schema={"forPeople": True})]
"""A sentence, whose wording may change at any time."""
Filled = TypeVar("Filled", bound=Struct)
Entry = TypeVar("Entry")
MAX_BRIEF_BYTES = 6000
"""The most bytes of a brief document: some 1,500 tokens of a language model."""
LARGEST_DOCUMENT_BYTES = 1 << 28
"""No document is larger; a device that a name leads to may have no end."""


def read_document(path: str | Path) -> bytes:
    """Return the bytes of a file. Raises OSError also if it is too large, or has a name that no file can have."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_DOCUMENT_BYTES + 1)
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error)) from error
    if len(data) > LARGEST_DOCUMENT_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data


def converted(entry: object, kind: type[Entry]) -> Entry | None:
    """Return a decoded entry as an object of this type; None if it is missing or malformed."""
    try:
        return msgspec.convert(entry, kind)
    except msgspec.ValidationError:
        return None


def doc(meaning: str) -> Meta:
    """Return the description of a field."""
    return Meta(description=meaning)


def one_of(values: Iterable[str]) -> Meta:
    """Return the list of words that a text may be. Readers accept others, too: later versions may write more."""
    return Meta(extra_json_schema={"enum": list(values)})


def _in(unit: str) -> Meta:
    return Meta(extra_json_schema={"unit": unit})


Bytes: TypeAlias = Annotated[float, _in("bytes")]
Ms: TypeAlias = Annotated[float, _in("ms")]
Us: TypeAlias = Annotated[float, _in("µs")]
Gbps: TypeAlias = Annotated[float, _in("GB/s")]
Share: TypeAlias = Annotated[float, _in("share")]
RangeMs: TypeAlias = Annotated[Range, _in("ms")]


class Document(Struct):
    """A JSON object whose fields are known, part of what a command writes.

    A field that is added later gets a default, with which documents of older versions are read. Only fields that may be
    UNSET are left out of documents, unless they are `NOT_IN_OLDER`.
    """


def projection(whole: type[Document], fields: str) -> Callable[[type[Filled]], type[Filled]]:
    """Return a decorator for a document with these fields: those of the class, all others as `whole` has them."""

    def with_fields(own: type[Filled]) -> type[Filled]:
        types = get_type_hints(whole, include_extras=True) | get_type_hints(own, include_extras=True)
        named = [(name, types[name]) for name in fields.split()]
        kept = {"__doc__": own.__doc__, "__module__": own.__module__}
        return msgspec.defstruct(own.__name__, named, bases=(Document,), namespace=kept)  # type: ignore[return-value]

    return with_fields


def encoded(document: Struct) -> str:
    """Return a document as JSON text. Raises ValueError if it holds NaN or an infinity, which JSON lacks."""
    return json.dumps(msgspec.to_builtins(document), indent=2, allow_nan=False) + "\n"


def encoded_briefly(document: Struct) -> str:
    """Return the same on one line, without escapes."""
    return json.dumps(msgspec.to_builtins(document), allow_nan=False, ensure_ascii=False) + "\n"


def encoded_as_brief(documents: Iterable[Struct]) -> str:
    """Return the first document, on one line, of at most `MAX_BRIEF_BYTES` of UTF-8; where all have more, the last."""
    text = ""
    for document in documents:
        text = encoded_briefly(document)
        if len(text.encode()) <= MAX_BRIEF_BYTES:
            break
    return text


def maybe_ms(ns: float | None) -> float | None:
    """Return a time in milliseconds, if there is one."""
    return None if ns is None else ms(ns)


def range_ms(range_ns: Sequence[float] | None) -> list[float] | None:
    """Return a range in milliseconds, if there is one."""
    return None if range_ns is None else [ms(end) for end in range_ns]


def filled(document: type[Filled], *sources: object, **fields: Any) -> Filled:
    """Return a document of these fields; each other field is taken from the first source with that name.

    `x_ms` is a source's `x_ns` in milliseconds, `ms` its `ns`, and file, line and function are those of its `place`.
    A record, or each of a sequence, becomes the document that the field holds, filled in the same way. Fields that no
    source has are null where a source is None.
    """
    held = _documents_in(document)
    others = (name for name in document.__struct_fields__ if name not in fields)
    return document(**fields, **{name: _as_held(_from_first(sources, name), held.get(name)) for name in others})


@cache
def _documents_in(document: type[Struct]) -> dict[str, type[Document]]:
    kinds = ((field.name, _document_in(field.type)) for field in msgspec.structs.fields(document))
    return {name: kind for name, kind in kinds if kind}


def _document_in(kind: Any) -> type[Document] | None:
    if parts := get_args(kind):
        return next(filter(None, map(_document_in, parts)), None)
    return kind if isinstance(kind, type) and issubclass(kind, Document) else None


def _as_held(value: Any, kind: type[Document] | None) -> Any:
    if kind is None or value is None or type(value) is kind:
        return value
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):  # a named tuple is a record
        return [_as_held(entry, kind) for entry in value]
    return filled(kind, value)


def _from_first(sources: Sequence[object], name: str) -> Any:
    for source in sources:
        if name.endswith("ms") and hasattr(source, in_ns := name.removesuffix("ms") + "ns"):
            time = getattr(source, in_ns)
            return range_ms(time) if isinstance(time, tuple) else maybe_ms(time)
        if hasattr(source, name):
            return getattr(source, name)
        if name in PLACE_FIELDS and hasattr(source, "place"):
            return getattr(source.place, name)
    if any(source is None for source in sources):
        return None
    raise AttributeError(f"{type(sources[-1]).__name__} has no {name}")
