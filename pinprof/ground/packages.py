"""The packages that pinprof is built on: what each is for, and which of them are installed."""

import sys
from importlib.util import find_spec
from typing import NamedTuple


class Package(NamedTuple):
    """A package on which pinprof depends, always or by an extra."""

    name: str
    use: str
    modules: tuple[str, ...]
    """What is imported of it, and of packages that it brings."""
    extra: str = ""
    """The extra of pinprof that brings it; empty if it always comes."""
    successor: str = ""
    """Another package with the same modules, which does as well."""
    before: tuple[int, int] = (4, 0)
    """The version of Python that no longer needs it."""

    @property
    def version(self) -> str | None:
        """The installed version, after the name of the successor if only that is installed; None without either."""
        successor = _version(self.successor) if self.successor else None
        return _version(self.name) or (successor and f"{self.successor} {successor}")

    @property
    def is_needed(self) -> bool:
        """Whether this Python needs it."""
        return sys.version_info < self.before

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"pip install 'pinprof[{self.extra}]'" if self.extra else f"pip install {self.name}"


_DECODING = "decoding JSON and gzip at full speed"
_COMMAND_LINE = "the command line and its texts"
_CHARTS = "charts, and escaping on pages"
_URLS = "traces at URLs"

PACKAGES = (
    Package("torch", "recording, the workloads and the guard; reading and reporting do not import it", ("torch",)),
    Package("numpy", "tables of events, and all analyses", ("numpy",)),
    Package("msgspec", _DECODING, ("msgspec",)),
    Package("isal", _DECODING, ("isal",)),
    Package("backports.zstd", "`.zst` files before Python 3.14", ("backports",), before=(3, 14)),
    Package("tomli", "`pyproject.toml` before Python 3.11", ("tomli",), before=(3, 11)),
    Package("click", _COMMAND_LINE, ("click",)),
    Package("rich", _COMMAND_LINE, ("rich",)),
    Package("plotly", _CHARTS, ("plotly",)),
    Package("markupsafe", _CHARTS, ("markupsafe",)),
    Package("pandas", "tables in notebooks: `to_pandas()`", ("pandas",)),
    Package("HolisticTraceAnalysis", "`report --hta` and `pinprof.hta`", ("hta",), successor="traceinsight"),
    Package("aiohttp", _URLS, ("aiohttp",), "remote"),
    Package("fsspec", _URLS, ("fsspec",), "remote"),
    Package("gcsfs", _URLS, ("gcsfs",), "remote"),
    Package("s3fs", _URLS, ("s3fs",), "remote"),
)


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  only for those who ask

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def missing(error: ModuleNotFoundError) -> str | None:
    """Return which package an import misses, what it is for and how to install it; None if it is none of these."""
    module = (error.name or "").partition(".")[0]
    package = next((package for package in PACKAGES if module in package.modules), None)
    if package is None or find_spec(module):
        return None
    return f"{package.name} is not installed ({package.use}): {package.install}; pinprof doctor lists what is missing"
