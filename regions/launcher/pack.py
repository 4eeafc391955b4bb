"""The launcher as one file: a zipapp that any Python 3.8 or later runs.

Beside each source stands what the packing Python compiled of it: the same Python does not compile
it again in front of every process of a gang, any other passes it over and takes the source. What
the sources have from ``dataclasses`` they have from ``records`` there.

The rule: the same sources, packed by the same Python, give the same bytes, so that its digest names
it. Read ``pack`` first.
"""

from __future__ import annotations

import importlib.util
import io
import marshal
import os
import zipfile
from functools import lru_cache
from typing import List, Tuple

_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = b"""import sys

from regions.launcher.__main__ import main

sys.exit(main(sys.argv[1:]))
"""
_TIME = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT = ("pack.py",)
_SLOW, _QUICK = b"from dataclasses import ", b"from regions.launcher.records import "
_UNCHECKED = (1).to_bytes(4, "little")
"""By its hash, and not to be looked up in the source: both are members of the same file."""
_PLAIN_MARSHAL = 2
"""The last format whose bytes do not depend on what else refers to a constant."""


@lru_cache(maxsize=1)  # every cluster of a broker carries the same
def pack() -> bytes:
    """Return the program's bytes, to be written to a file, or put into a ConfigMap."""
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, source in _members():
            for member, data in ((name, source), (name + "c", _compiled(name, source))):
                entry = zipfile.ZipInfo(member, _TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, data)
    return buffer.getvalue()


def _compiled(name: str, source: bytes) -> bytes:
    """Return a module as an importer finds it compiled; see PEP 552."""
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source)
    return head + marshal.dumps(compile(source, name, "exec", dont_inherit=True), _PLAIN_MARSHAL)


def _members() -> List[Tuple[str, bytes]]:
    folder = os.path.dirname(os.path.abspath(__file__))
    members = [("__main__.py", _MAIN), ("regions/__init__.py", b"")]
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py") and name not in _LEFT_OUT:
            with open(os.path.join(folder, name), "rb") as source:
                text = source.read().replace(_SLOW, _QUICK)
                members.append((f"regions/launcher/{name}", text))
    return members
