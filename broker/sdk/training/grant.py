"""What the launcher tells a process about its start, read from the environment once.

The rule it keeps: a value that is there and makes no sense is an error with its name, never a
default; a value that is absent means that the script runs outside the broker. Read `Grant.read`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from broker.sdk.training.bucket import BucketPlace
from broker.sdk.training.wire import Door


class GrantError(ValueError):
    """An environment variable of the launcher does not say what it must; the message names it."""


class Grant(NamedTuple):
    """The start that this process belongs to.

    `checkpoints` is where this epoch's checkpoints are kept; `resume_from` is where the one
    checkpoint to start from is, None for none: directories, or places of a bucket, and
    `resume_digest` is that of its manifest, empty if it was not said. `private_dir` is where this
    process and its launcher exchange notes; None outside the broker, where `run` is empty and
    `epoch` is 0.
    """

    run: str
    epoch: int
    rank: int
    world_size: int
    local_rank: int
    checkpoints: Path | BucketPlace
    resume_from: Path | BucketPlace | None
    resume_digest: str
    private_dir: Path | None

    @classmethod
    def read(cls, environ: Mapping[str, str], *, local_dir: Path) -> Grant:
        """Read the grant from `environ`; `local_dir` holds the checkpoints outside the broker.

        Raises GrantError, which names the variable, for a value that cannot be meant.
        """
        world_size = _number(environ, "WORLD_SIZE", default=1, at_least=1)
        rank = _number(environ, "RANK", default=0, at_least=0)
        if rank >= world_size:
            raise GrantError(f"RANK is {rank}, but WORLD_SIZE is {world_size}")
        checkpoints = environ.get("BROKER_CHECKPOINT_URI", "")
        resume_from = environ.get("BROKER_RESUME_FROM", "")
        private_dir = environ.get("BROKER_DIR", "")
        door = Door(
            endpoint=environ.get("BROKER_STORE_ENDPOINT", ""),
            tokens=environ.get("BROKER_STORE_TOKENS", ""),
        )
        return cls(
            run=environ.get("BROKER_RUN", ""),
            epoch=_number(environ, "BROKER_EPOCH", default=0, at_least=0),
            rank=rank,
            world_size=world_size,
            local_rank=_number(environ, "LOCAL_RANK", default=0, at_least=0),
            checkpoints=_place("BROKER_CHECKPOINT_URI", checkpoints, door)
            if checkpoints
            else local_dir.absolute(),
            resume_from=_place("BROKER_RESUME_FROM", resume_from, door) if resume_from else None,
            resume_digest=environ.get("BROKER_RESUME_DIGEST", ""),
            private_dir=Path(private_dir) if private_dir else None,
        )

    @property
    def is_brokered(self) -> bool:
        """Whether a launcher started this process."""
        return self.private_dir is not None


def _number(environ: Mapping[str, str], name: str, *, default: int, at_least: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        raise GrantError(f"{name} is {text!r}, which is not a whole number") from None
    if number < at_least:
        raise GrantError(f"{name} is {number}, but must be {at_least} or more")
    return number


def _place(name: str, uri: str, door: Door) -> Path | BucketPlace:
    return BucketPlace.read(uri, door) or _directory(name, uri)


def _directory(name: str, uri: str) -> Path:
    """The local path of a file:// URI or of an absolute path; a mounted bucket has one too."""
    parts = urlsplit(uri)
    path = Path(unquote(parts.path)) if parts.scheme == "file" else Path(uri)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise GrantError(f"{name} is {uri!r}; it must be a file:// URI of this machine, or gs://")
    if not path.is_absolute():
        raise GrantError(f"{name} is {uri!r}; its path must be absolute")
    return path
