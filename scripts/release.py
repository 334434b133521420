"""Prepares a checkout for a release: `python scripts/release.py OWNER/NAME v1.2.3`, before `python -m build`.

PyPI shows the README without this repository: links become addresses at the tag, and the commands install from PyPI.
pyproject.toml gets the links of the project. A tag that is not the version in pinprof/version.py is refused.
"""

import re
import sys
from pathlib import Path

LINK = re.compile(r"(?<=\]\()(?!https://|#)([^)\s]+)")
VERSION = re.compile(r'^VERSION = "(.*)"$', re.MULTILINE)
INSTALLS = {
    "pip install -r pinprof/reading.txt && pip install --no-deps .": (
        "pip install --no-deps pinprof && \\\n"
        "  pip install -r $(python -c 'import pinprof; print(*pinprof.__path__)')/reading.txt"
    ),
    "pip install .": "pip install pinprof",
}
"""Commands of the README that install from a clone, and those that install from PyPI."""


def published(text: str, repository: str, tag: str) -> str:
    """Return the README as PyPI shows it."""

    def address(link: re.Match[str]) -> str:
        kind = "raw" if link[1].endswith(".png") else "blob"
        return f"https://github.com/{repository}/{kind}/{tag}/{link[1]}"

    for here, there in INSTALLS.items():
        text = text.replace(here, there)
    return LINK.sub(address, text)


def project_urls(repository: str, tag: str) -> str:
    """Return the table of pyproject.toml with the links of the project."""
    home = f"https://github.com/{repository}"
    urls = {
        "Homepage": home,
        "Documentation": f"{home}/tree/{tag}/pinprof/guides",
        "Changelog": f"{home}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }
    return "\n[project.urls]\n" + "".join(f'{name} = "{url}"\n' for name, url in urls.items())


def prepare(folder: Path, repository: str, tag: str) -> None:
    """Change README.md and pyproject.toml in a checkout; raise SystemExit if the tag is of another version."""
    version = VERSION.search((folder / "pinprof" / "version.py").read_text())
    if not version or tag.removeprefix("v") != version[1]:
        raise SystemExit(f"{tag} is not the version in pinprof/version.py: {version and version[1]}")
    readme, project = folder / "README.md", folder / "pyproject.toml"
    readme.write_text(published(readme.read_text(), repository, tag))
    project.write_text(project.read_text() + project_urls(repository, tag))


if __name__ == "__main__":
    prepare(Path(__file__).resolve().parent.parent, *sys.argv[1:3])
