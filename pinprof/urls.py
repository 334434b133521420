"""How places of traces are told apart and shown: URLs, paths, standard input; without the secrets of a URL."""

import re

STANDARD_INPUT = "-"

URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]+::)*[A-Za-z][A-Za-z0-9+.-]+://")
"""A scheme has two letters or more, else it is a drive of Windows; fsspec chains URLs (simplecache::s3://...)."""
CHAIN = re.compile(r"::(?=[A-Za-z][A-Za-z0-9+.-]+://)")
WEB = re.compile(r"https?://", re.IGNORECASE)
USER = re.compile(r"(?<=://)(?:[^/?#\s@:]*:(?!:|\d+(?:[/?#]|$))\S*?@(?:[^/?#\s]*@)?|[^/?#\s]*@)")
"""What stands before a host: a user, a token, a key with its secret, in which a slash may stand."""
USER_OF_ALL = re.compile(USER.pattern.replace(r"\s", "").replace(r"\S", r"[^\x00]"))
"""The same where all of the text is one address, and white space in it is no end."""
PARAMETERS = re.compile(r";[^/?#]*")
"""What belongs to one part of a path: `;jsessionid=...`."""
ENDING = re.compile(
    r"""(https?://[^\s?#;'"]*[?#;]|[A-Za-z][A-Za-z0-9+.-]+://[^\s?#;'"]*(?:[#;]|\?(?=[^\s?]*=)))\S*[^\s'":;,.)]""",
    re.IGNORECASE,
)
"""In a sentence, what may be secret at the end of an address, but not the punctuation after it."""
HIDDEN = "***"
LEAST = 4
"""Shorter parts of a URL stand in any sentence."""


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
    """Return the name under which a trace is reported: of a URL without all that may be secret.

    That is the user and password, what follows a semicolon in the path, and all of a query and a fragment: these hold
    the signature of a presigned URL, and every service names that differently.
    """
    if path == STANDARD_INPUT:
        return "standard input"
    if not is_url(path):
        return path
    parts = []
    for part in CHAIN.split(path):
        kept, mark = _without_ending(USER_OF_ALL.sub(f"{HIDDEN}@", part))
        parts.append(PARAMETERS.sub(f";{HIDDEN}", kept) + (mark + HIDDEN if mark else ""))
        if mark or ";" in kept:  # what follows may be the secret, too
            break
    return "::".join(parts)


def _without_ending(url: str) -> tuple[str, str]:
    """Return an address up to its query or fragment, and the mark of that; in a bucket, `?` alone is a pattern."""
    for found in re.finditer(r"[?#]", url):
        if found[0] == "#" or WEB.match(url) or "=" in url[found.end() :]:
            return url[: found.start()], found[0]
    return url, ""


def redacted(text: str) -> str:
    """Return a text with `***` in place of what `shown` hides of the URLs in it; each ends at white space."""
    return ENDING.sub(rf"\1{HIDDEN}", USER.sub(f"{HIDDEN}@", text))


def tells(text: str, url: str) -> bool:
    """Return whether a text has a part of a URL that `shown` hides, in whatever form: then it is not to be shown."""
    kept = re.split(r"\W+", shown(url))
    return any(part in text for part in re.split(r"\W+", url) if len(part) >= LEAST and part not in kept)
