"""What a release makes of the README and of pyproject.toml."""

import re
from pathlib import Path

import pytest
from blocks import README
from recordings import ROOT

from pinprof.version import VERSION
from scripts import release


def test_the_readme_of_a_release_leads_to_its_tag_and_installs_from_the_index() -> None:
    text = release.published(README.read_text(), "owner/name", "v1")
    assert all(link.startswith(("https://", "#")) for link in re.findall(r"\]\(([^)]+)\)", text))
    assert "](https://github.com/owner/name/raw/v1/pinprof/guides/page.png)" in text
    assert "](https://github.com/owner/name/blob/v1/CHANGELOG.md)" in text
    assert all(here not in text and there in text for here, there in release.INSTALLS.items())


def test_a_release_has_the_version_of_its_tag(tmp_path: Path) -> None:
    (tmp_path / "pinprof").mkdir()
    for name in ("README.md", "pyproject.toml", "pinprof/version.py"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    with pytest.raises(SystemExit, match="v0 is not the version"):
        release.prepare(tmp_path, "owner/name", "v0")
    release.prepare(tmp_path, "owner/name", f"v{VERSION}")
    assert (tmp_path / "pyproject.toml").read_text().endswith('Issues = "https://github.com/owner/name/issues"\n')
