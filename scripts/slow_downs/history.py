"""A git history with one slow revision in it, and one that does not run."""

import subprocess
from collections.abc import Collection
from pathlib import Path

IDENTITY = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
BROKEN = "raise RuntimeError('half done')\n"


def git(folder: Path, *words: str) -> str:
    """Return what git prints."""
    done = subprocess.run(["git", *IDENTITY, *words], cwd=folder, check=True, capture_output=True, text=True)  # noqa: S607
    return done.stdout.strip()


def write_history(
    folder: Path, texts: tuple[str, str], *, count: int, slow: int, broken: Collection[int] = ()
) -> tuple[str, str]:
    """Make a repository whose `train.py` is the first text, from revision `slow` on the second; return good and slow.

    After the good revision come `count` others, numbered from 1, which each change something else too. The last is
    HEAD. Those that are `broken` do not run.
    """
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    commits = []
    for number in range(count + 1):
        text = texts[number >= slow]
        (folder / "train.py").write_text((BROKEN if number in broken else "") + text + f"\n# revision {number}\n")
        (folder / "notes.txt").write_text(f"{number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", f"Revision {number}")
        commits.append(git(folder, "rev-parse", "HEAD"))
    return commits[0], commits[slow]
