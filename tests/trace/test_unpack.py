"""Packed files: what comes out of whole, cut, broken and hostile ones."""

import gzip
import io
import random
from collections.abc import Callable
from contextlib import suppress

import pytest
from packed import zstd

from pinprof.ground.errors import TraceError
from pinprof.trace.reader import unpack
from pinprof.trace.reader.unpack import CHUNK_BYTES, Unpacked

PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress, "plain": bytes}
TEXT = b"".join(b'{"ts": %d}' % number for number in range(1000))


class OneByOne(io.BytesIO):
    """A stream that hands out a byte at a time, as a pipe may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(1, size) if size and size > 0 else 1)


def unpacked(data: bytes, stream: type[io.BytesIO] = io.BytesIO) -> tuple[bytes, str | None]:
    content = Unpacked(stream(data))
    return b"".join(content), content.lost


@pytest.mark.parametrize("form", PACK)
@pytest.mark.parametrize("stream", [io.BytesIO, OneByOne])
@pytest.mark.parametrize("text", [TEXT, b"", b"{", b"[]\n"])
def test_the_form_is_told_by_the_first_bytes(form: str, stream: type[io.BytesIO], text: bytes) -> None:
    assert unpacked(PACK[form](text), stream) == (text, None)


@pytest.mark.parametrize("form", ["gzip", "zstd"])
@pytest.mark.parametrize("stream", [io.BytesIO, OneByOne])
def test_members_are_read_one_after_another(form: str, stream: type[io.BytesIO]) -> None:
    pack = PACK[form]
    assert unpacked(pack(TEXT) + pack(b"") + pack(b"x") + pack(TEXT), stream) == (TEXT + b"x" + TEXT, None)


@pytest.mark.parametrize("form", ["gzip", "zstd"])
@pytest.mark.parametrize("garbage", [b"\0", b"\0" * 512, b"garbage", b"\x1f", b"\x28\xb5"])
def test_what_follows_the_last_member_is_ignored(form: str, garbage: bytes) -> None:
    assert unpacked(PACK[form](TEXT) + garbage) == (TEXT, None)


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_of_a_cut_file_comes_what_there_is_and_then_that_the_rest_is_lost(form: str) -> None:
    text = random.Random(1).randbytes(300_000)  # does not pack, so that half the file is half the content
    packed = PACK[form](text)
    for size in (4, 100, len(packed) // 2, len(packed) - 1):
        content, lost = unpacked(packed[:size])
        assert text.startswith(content)
        assert lost == f"the {form} data ends too early; the file is truncated, copy it again"
    assert len(unpacked(packed[: len(packed) // 2])[0]) > 0.4 * len(text) - zstd_block(form)


def zstd_block(form: str) -> int:
    """Return what may be held back until its block is whole."""
    return 2**17 if form == "zstd" else 0


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_of_a_corrupt_file_comes_what_there_is_and_then_the_reason(form: str) -> None:
    pack = PACK[form]
    broken = bytearray(pack(TEXT * 100))
    broken[len(broken) // 2] ^= 0xFF
    broken[len(broken) // 2 + 1] ^= 0xFF
    content, lost = unpacked(pack(TEXT) + bytes(broken))
    assert content.startswith(TEXT)
    assert lost is not None
    assert lost.startswith((f"the {form} data is corrupt (", f"the {form} data ends too early"))  # gzip loses its way
    assert "\n" not in lost


@pytest.mark.parametrize("form", PACK)
def test_chunks_are_bounded(form: str) -> None:
    text = b"[" + b" " * (5 * CHUNK_BYTES) + b"]"
    sizes = [len(chunk) for chunk in Unpacked(io.BytesIO(PACK[form](text)))]
    assert sum(sizes) == len(text)
    assert 0 < min(sizes) <= max(sizes) <= CHUNK_BYTES


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_a_bomb_is_refused_with_a_way_out(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = PACK[form](b"\0" * 2**23)
    assert unpacked(bomb)[1] is None  # a small one harms nobody
    monkeypatch.setattr(unpack, "HARMLESS_BYTES", 2**20)
    with pytest.raises(TraceError, match="50 times its size, as only a decompression bomb does; if you trust it"):
        unpacked(bomb)


def test_a_window_that_takes_too_much_memory_is_refused_with_a_way_out() -> None:
    long = (zstd.CompressionParameter.window_log, 29), (zstd.CompressionParameter.enable_long_distance_matching, 1)
    packer = zstd.ZstdCompressor(options=dict(long))
    data = packer.compress(TEXT) + packer.flush()
    with pytest.raises(TraceError, match="zstd -d --long=31"):
        unpacked(data)


def test_a_stream_that_fails_says_why() -> None:
    class Failing(io.BytesIO):
        def read(self, _size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(TraceError, match=r"^cannot be read \(Input/output error\)$"):
        unpacked(b"", Failing)


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_flipped_bytes_never_end_in_another_exception(form: str) -> None:
    written, chance = PACK[form](TEXT), random.Random(3)
    for _ in range(1000):
        data = bytearray(written)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(TraceError):
            unpacked(bytes(data))
