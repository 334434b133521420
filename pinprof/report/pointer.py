"""Ids of what is in a JSON document: JSON Pointers (RFC 6901), such as `/traces/0/findings/1`."""

import re
from typing import Any

from pinprof.errors import PinprofError

INDEX = re.compile(r"[0-9]{1,9}")


def at(document: Any, pointer: str) -> Any:
    """Return what a pointer names in a document. Raises PinprofError if that holds no such thing."""
    found = document
    for part in _parts(pointer):
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and INDEX.fullmatch(part) and int(part) < len(found):
            found = found[int(part)]
        else:
            raise PinprofError(f"{pointer}: there is no such id in this document")
    return found


def _parts(pointer: str) -> list[str]:
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise PinprofError(f"{pointer}: an id begins with a slash, as /traces/0/findings/0")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]
