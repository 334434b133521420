"""Distinguishes URLs, paths and standard input, and shows them without the secrets of a URL."""

import re

STANDARD_INPUT = "-"

URL_START = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]+::)*[A-Za-z][A-Za-z0-9+.-]+://")
"""A scheme has two letters or more; one letter is a Windows drive. fsspec chains URLs (simplecache::s3://...)."""
URL_CHAIN = re.compile(r"::(?=[A-Za-z][A-Za-z0-9+.-]+://)")
WEB_URL = re.compile(r"https?://", re.IGNORECASE)
SECRET_USER = re.compile(r"(?<=://)(?:[^/?#\s@:]*:(?!:|\d+(?:[/?#]|$))\S*?@(?:[^/?#\s]*@)?|[^/?#\s]*@)")
"""The part before the host: a user, a token, or a key with its secret, which may contain a slash."""
SECRET_USER_OF_ADDRESS = re.compile(SECRET_USER.pattern.replace(r"\s", "").replace(r"\S", r"[^\x00]"))
"""The same for a text that is one address, which white space does not end."""
PATH_PARAMETERS = re.compile(r";[^/?#]*")
"""The parameters of one part of a path: `;jsessionid=...`."""
SECRET_ENDING = re.compile(
    r"""(https?://[^\s?#;'"]*[?#;]|[A-Za-z][A-Za-z0-9+.-]+://[^\s?#;'"]*(?:[#;]|\?(?=[^\s?]*=)))\S*[^\s'":;,.)]""",
    re.IGNORECASE,
)
"""The possibly secret end of an address in a sentence, without the punctuation after it."""
CENSORED = "***"
MIN_SECRET_CHARS = 4
"""In characters; shorter parts of a URL occur in any sentence."""


def is_url(path: str) -> bool:
    """Return whether a path is a URL; names with a colon and Windows drives are not."""
    return URL_START.match(path) is not None


def local_path(path: str) -> str | None:
    """Return the local file that a path or a URL names, as fsspec reads it; None if it names no local file."""
    scheme, _, name = path.rpartition("::")[2].partition("://")
    if not is_url(path):
        return path
    return name if scheme in {"file", "local"} else None


def shown(path: str) -> str:
    """Return the name under which reports show a trace: a URL without its possibly secret parts.

    These are the user and password, what follows a semicolon in the path, and the whole query and fragment, which
    contain the signature of a presigned URL under a name that depends on the service.
    """
    if path == STANDARD_INPUT:
        return "standard input"
    if not is_url(path):
        return path
    parts = []
    for part in URL_CHAIN.split(path):
        kept, mark = _without_ending(SECRET_USER_OF_ADDRESS.sub(f"{CENSORED}@", part))
        parts.append(PATH_PARAMETERS.sub(f";{CENSORED}", kept) + (mark + CENSORED if mark else ""))
        if mark or ";" in kept:  # the rest may be secret, too
            break
    return "::".join(parts)


def _without_ending(url: str) -> tuple[str, str]:
    """Return an address without its query or fragment, and the mark that began it; in a bucket, `?` is a pattern."""
    for match in re.finditer(r"[?#]", url):
        if match[0] == "#" or WEB_URL.match(url) or "=" in url[match.end() :]:
            return url[: match.start()], match[0]
    return url, ""


def redacted(text: str) -> str:
    """Return a text whose URLs show `***` for what `shown` hides; a URL ends at white space."""
    return SECRET_ENDING.sub(rf"\1{CENSORED}", SECRET_USER.sub(f"{CENSORED}@", text))


def has_secret_of(text: str, url: str) -> bool:
    """Return whether a text contains a part of a URL that `shown` hides, and so must not be shown."""
    kept = re.split(r"\W+", shown(url))
    return any(part in text for part in re.split(r"\W+", url) if len(part) >= MIN_SECRET_CHARS and part not in kept)
