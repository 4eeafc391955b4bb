"""Checkpoints as training writes them, for the tests of the replicator."""

import hashlib
import json
from collections.abc import Mapping

from replicator.checkpoint.formats import MARKERS, Format
from replicator.checkpoint.paths import CheckpointPath
from replicator.stores.port import ContentWriter

PATH = CheckpointPath(run_key="r1", epoch="e000001-abc", step=20)


ZIP_END = b"PK\x05\x06" + bytes(18)
THEIRS = {
    Format.PYTORCH_DCP: b"pickle",
    Format.HUGGING_FACE: b'{"global_step": 20}',
    Format.LIGHTNING: b"all that was learned" + ZIP_END,
    Format.ORBAX: b'{"item_handlers": {}}',
}


def marker_of(files: Mapping[str, bytes]) -> bytes:
    """Return the `.complete` marker over `files`."""
    entries = [
        {"name": name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(files.items())
    ]
    return json.dumps({"schema_version": 1, "files": entries}).encode()


def save(
    store: ContentWriter,
    path: CheckpointPath,
    files: Mapping[str, bytes],
    checkpoint_format: Format = Format.FILES,
) -> None:
    """Write a complete checkpoint: the files, then the marker."""
    save_partial(store, path, files)
    marker = marker_of(files) if checkpoint_format is Format.FILES else THEIRS[checkpoint_format]
    store.put(path.prefix + MARKERS[checkpoint_format], [marker])


def save_partial(store: ContentWriter, path: CheckpointPath, files: Mapping[str, bytes]) -> None:
    """Write the files of a checkpoint without its marker."""
    for name, data in files.items():
        store.put(path.prefix + name, [data])


def unheard(size_bytes: int) -> None:
    """Hear of a chunk and do nothing."""
