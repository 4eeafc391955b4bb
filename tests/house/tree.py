"""The files of the project as git sees them: tracked, or new and not ignored.

The rule it keeps: a house rule looks at everything that could be committed, and at nothing else.
"""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sysconfig.get_path("scripts"))
GENERATED = "broker/v1/"


def project_files() -> list[str]:
    """Returns every file of the project, as a path relative to its root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    return sorted({path for path in listed if path and (ROOT / path).is_file()})


def written_files(*suffixes: str) -> list[str]:
    """Returns the files with one of these suffixes that a person wrote."""
    return [
        path
        for path in project_files()
        if path.endswith(suffixes) and not path.startswith(GENERATED)
    ]


def text_of(path: str) -> str:
    """Returns the text of a file of the project; bytes that are no text are shown as such."""
    return (ROOT / path).read_text(encoding="utf-8", errors="backslashreplace")
