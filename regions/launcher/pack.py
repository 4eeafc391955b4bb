"""The launcher as one file: a zipapp that any Python 3.8 or later runs.

The rule: the same sources give the same bytes, so that its digest names it. Read ``pack`` first.
"""

from __future__ import annotations

import io
import os
import zipfile
from typing import List, Tuple

_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = """import sys

from regions.launcher.__main__ import main

sys.exit(main(sys.argv[1:]))
"""
_TIME = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT = ("pack.py",)


def pack() -> bytes:
    """Return the program's bytes, to be written to a file, or put into a ConfigMap."""
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _members():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text)
    return buffer.getvalue()


def _members() -> List[Tuple[str, str]]:
    folder = os.path.dirname(os.path.abspath(__file__))
    members = [("__main__.py", _MAIN), ("regions/__init__.py", "")]
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py") and name not in _LEFT_OUT:
            with open(os.path.join(folder, name), encoding="utf-8") as source:
                members.append((f"regions/launcher/{name}", source.read()))
    return members
