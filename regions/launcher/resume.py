"""The checkpoint that a start begins with, held against its manifest before the command runs.

The rule: what the broker chose was whole when it was chosen; since then a disk may have lost a file
of it, or somebody may be mending it, and the manifest is away while that goes on. So it has to be
there, be the one that the seals name, and all that it names has to be there in its size. No file is
read for that: its bytes are held against their checksums by whoever reads them, which the training
library does. Read ``fault_of`` first.
"""

from __future__ import annotations

import hashlib
import json
from typing import Dict, Optional, Tuple

from regions.launcher.store import Measured, read_bounded

MANIFEST = "_REPLICA.json"
MAX_MANIFEST_BYTES = 64 << 20


def fault_of(store: Measured, path: str, digest: Optional[str]) -> str:
    """Return in a sentence why nothing may begin with the checkpoint; empty: all of it is there.

    Raises StoreUnreachable when the store does not say.
    ``digest`` is that of its manifest, None for what no seal of the grant tells of: a checkpoint
    of another run. It may have no manifest then, and who reads it has to see whether it is whole.
    """
    raw = read_bounded(store, f"{path}/{MANIFEST}", MAX_MANIFEST_BYTES)
    if raw is None:
        return "" if digest is None else f"{path} has no {MANIFEST} any more"
    try:
        own, named = _read(raw)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return f"{path}/{MANIFEST} cannot be read ({type(error).__name__})"
    if digest not in (None, own):
        return f"{path} holds another checkpoint than was chosen"
    there = store.sizes(path + "/")
    for name, size_bytes in named.items():
        if there.get(name) != size_bytes:
            return f"{path}/{name[:200]!r} is not there as the manifest says"
    return ""


def _read(raw: bytes) -> Tuple[str, Dict[str, int]]:
    """Return the digest of a manifest, by what it says, and the size of each file that it names."""
    document = json.loads(raw)
    files = [[str(one["name"]), one["size_bytes"], one["sha256"]] for one in document["files"]]
    identity = {"epoch": document["epoch"], "step": document["step"], "files": files}
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    if digest != document["digest"]:
        raise ValueError("it was altered")
    return digest, {name: size_bytes for name, size_bytes, _ in files}
