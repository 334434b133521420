"""How places of traces are told apart and shown: URLs, paths, standard input; without the secrets of a URL."""

import re

STANDARD_INPUT = "-"

URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]+::)*[A-Za-z][A-Za-z0-9+.-]+://")
"""A scheme has two letters or more, else it is a drive of Windows; fsspec chains URLs (simplecache::s3://...)."""
USER = re.compile(r"(?<=://)(?:[^/?#\s@:]*:(?!:|\d+(?:/|$))\S*?@(?:[^/?#\s]*@)?|[^/?#\s]*@)")
"""What stands before a host: a user, a token, a key with its secret, in which a slash may stand."""
QUERY = re.compile(r"""(https?://[^\s?'"]*\?)[^\s'"]*[^\s'":;,.)]""")
"""What follows the path of a web address, but not the punctuation after it."""
HIDDEN = "***"


def is_url(path: str) -> bool:
    """Return whether a path is a URL; names with a colon and drives of Windows are not."""
    return URL.match(path) is not None


def local_path(path: str) -> str | None:
    """Return the file of this machine that a path or a URL names, as fsspec reads it; None where there is none."""
    scheme, _, name = path.rpartition("::")[2].partition("://")
    if not is_url(path):
        return path
    return name if scheme in {"file", "local"} else None


def shown(path: str) -> str:
    """Return the name under which a trace is reported: without user, password and signature, if it is a URL."""
    if path == STANDARD_INPUT:
        return "standard input"
    return redacted(path) if is_url(path) else path


def redacted(text: str) -> str:
    """Return a text with `***` in place of users, passwords and queries of the URLs in it.

    A query is hidden whole: it holds the signature of a presigned URL, and every service names that differently.
    """
    return QUERY.sub(rf"\1{HIDDEN}", USER.sub(f"{HIDDEN}@", text))
