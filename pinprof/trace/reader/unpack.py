"""Unpacks trace files: gzip and zstd, recognized by their first bytes, in chunks of bounded size."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

from pinprof.ground.errors import TraceError

READ_BYTES = 2**16
"""Bytes of a packed file that are read at once. A hostile file may have tiny members: for each, the rest of these bytes
is copied."""
CHUNK_BYTES = 2**17  # the most bytes of a chunk
MAGIC_BYTES = 4
HARMLESS_BYTES = 2**24  # a file that unpacks to no more than this is not a decompression bomb
MAX_UNPACKED_RATIO = 50
"""A file that unpacks to more than 50 times its size is a bomb: gzip reaches 1030, traces 10 to 30."""
MAX_UNPACKED_BYTES = 2**36
"""A file that unpacks to more than 64 GiB is one, too; the largest traces that can be opened have a tenth of that."""


Unpacker: TypeAlias = Any  # an unpacker with the interface of those of bz2 and lzma


@dataclass(frozen=True)
class Form:
    """A format of packed files, which consist of one or more members."""

    name: str
    is_start: Callable[[bytes], bool]
    unpacker: Callable[[], tuple[Unpacker, type[Exception]]]
    """Returns an unpacker of one member, and its type of errors."""
    by_hand: str


def _gzip() -> tuple[Unpacker, type[Exception]]:
    from isal import igzip_lib  # noqa: PLC0415  only for files that need it

    error: Any = igzip_lib.IsalError  # the stub says it is an instance
    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP), error


def _zstd() -> tuple[Unpacker, type[Exception]]:
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd  # noqa: PLC0415
        else:
            from backports import zstd  # noqa: PLC0415  only for files that need it
    except ImportError:
        raise TraceError(
            "is packed with zstd, which this Python cannot read; pip install backports.zstd (before Python 3.14), or "
            "unpack it first with zstd -d"
        ) from None
    return zstd.ZstdDecompressor(), zstd.ZstdError


def _is_zstd(data: bytes) -> bool:
    """Return whether a frame begins here, also a skippable one, as pzstd and others write between frames."""
    return data.startswith(b"\x28\xb5\x2f\xfd") or (data[1:4] == b"\x2a\x4d\x18" and data[0] >> 4 == 5)  # noqa: PLR2004


COMPRESSED_FORMS = (
    Form("gzip", lambda data: data.startswith(b"\x1f\x8b"), _gzip, "gunzip"),
    Form("zstd", _is_zstd, _zstd, "zstd -d --long=31"),
)


def is_packed(data: bytes) -> bool:
    """Return whether a file that begins with these bytes is packed in one of `COMPRESSED_FORMS`."""
    return any(form.is_start(data) for form in COMPRESSED_FORMS)


class Unpacked:
    """The unpacked content of a trace file as chunks of bytes; it can be iterated once.

    The readable part of a truncated or corrupt file comes first. Then `lost` says, in words for the user, why the rest
    is missing; it is None for a whole file, and before that. Data after the last member of a packed file is ignored, as
    gzip does.

    Raises TraceError, without the file's name, if the stream cannot be read, or holds a decompression bomb.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.lost: str | None = None
        self._stream = stream
        self._packed = 0
        self._unpacked = 0

    def __iter__(self) -> Iterator[bytes]:
        """Yield the chunks."""
        data = self._from(b"")
        for form in COMPRESSED_FORMS:
            if form.is_start(data):
                yield from self._members(form, data)
                return
        while data:
            yield data
            data = self._read(CHUNK_BYTES)

    def _members(self, form: Form, data: bytes) -> Iterator[bytes]:
        while form.is_start(data):
            unpacker, broken = form.unpacker()
            while not unpacker.eof:
                if unpacker.needs_input and not data:
                    data = self._read(READ_BYTES)
                    if not data:
                        self.lost = f"the {form.name} data ends too early; the file is truncated, copy it again"
                        return
                try:
                    chunk = unpacker.decompress(data, CHUNK_BYTES)
                except broken as error:
                    self.lost = _why(form, error)
                    return
                data = b""
                if chunk and not self._unpacked and is_packed(chunk):
                    raise TraceError(f"is packed twice; unpack it once first ({form.by_hand})")
                self._weigh(len(chunk), form)
                if chunk:
                    yield chunk
            data = self._from(unpacker.unused_data)

    def _from(self, data: bytes) -> bytes:
        """Return the data with more of the stream, if there is more, so that its format can be recognized."""
        while len(data) < MAGIC_BYTES and (more := self._read(READ_BYTES)):
            data += more
        return data

    def _read(self, size: int) -> bytes:
        try:
            data = self._stream.read(size)
        except OSError as error:
            raise TraceError(f"cannot be read ({error.strerror or error})") from error
        self._packed += len(data)
        return data

    def _weigh(self, size: int, form: Form) -> None:
        self._unpacked += size
        if self._unpacked > MAX_UNPACKED_BYTES:
            much = f"more than {MAX_UNPACKED_BYTES >> 30} GiB"
        elif self._unpacked > HARMLESS_BYTES and self._unpacked > MAX_UNPACKED_RATIO * self._packed:
            much = f"more than {MAX_UNPACKED_RATIO} times its size, as only a decompression bomb does"
        else:
            return
        raise TraceError(
            f"unpacks to {much}; if you trust it, unpack it with {form.by_hand}: plain files have no limit"
        )


def _why(form: Form, error: Exception) -> str:
    if "too much memory" in str(error):  # a window of more than 128 MiB, which zstd itself refuses as well
        raise TraceError(f"was packed with zstd --long; unpack it first with {form.by_hand}") from error
    return f"the {form.name} data is corrupt ({error}); copy the file again"
