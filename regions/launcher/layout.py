"""Where the start protocol keeps its records in a region's store, and what the records say.

The rule: every key is built here, from parts that were checked, and every record is an immutable
value. What two starts write can never mix, because an epoch's name carries the nonce of its grant.
The one exception is the owner, which is kept *by number*: a restored broker must be able to revoke
a start whose nonce it never learned. Read ``RunKeys`` first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional, Tuple

MAX_RANKS = 4096
"""The largest gang: one rank is one node or one embedded process."""
MAX_EPOCH_NUMBER = 999_999_999

_NONCE = re.compile(r"[0-9a-f]{8,64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")
_EPOCH = re.compile(r"e([0-9]{6,9})-([0-9a-f]{8,64})")
_OWNER_FOLDER = re.compile(r"e([0-9]{6,9})")
_STEP = re.compile(r"step-(0|[1-9][0-9]{0,14})")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BadKey(ValueError):
    """A part of a key that could not name anything of ours: never sent to a store."""


@dataclass(frozen=True)
class EpochId:
    """One start of a run: its number, and the nonce of the grant that opens it."""

    number: int
    nonce: str

    @property
    def name(self) -> str:
        """The epoch's folder, ``e<number>-<nonce>``."""
        return f"e{self.number:06d}-{self.nonce}"


@dataclass(frozen=True)
class Gate:
    """A process stands here; ``count`` moves for as long as it does.

    ``member`` is the cluster's own name of the process, never reused (a pod's uid), or empty: by it
    "the cluster saw this process gone" is said of a nonce. ``node`` is the machine it runs on and
    ``gang`` the object whose process it is, in the same names, and ``cluster`` is which cluster
    that is, as the broker calls it; or empty. Whoever comes later, and finds the process gone,
    knows by these whom to ask about it: several clusters can share a store.
    """

    rank: int
    nonce: str
    count: int
    member: str = ""
    node: str = ""
    gang: str = ""
    cluster: str = ""


@dataclass(frozen=True)
class Seal:
    """What counts of a closed epoch: its (step, manifest digest) pairs, and nothing else of it."""

    epoch: EpochId
    steps: Tuple[Tuple[int, str], ...]


@dataclass(frozen=True)
class Grant:
    """The broker's word that a placement may start, written once and never changed.

    ``resume_from`` is the path of one checkpoint folder relative to the store, or None to start
    from nothing. ``bundle`` is a sha256 in hex, or None. ``seals`` are those the start rests on: of
    every started epoch before it, also of one that saved nothing.
    """

    placement: str
    epoch: EpochId
    world_size: int
    incarnation: int
    resume_from: Optional[str]
    bundle: Optional[str]
    seals: Tuple[Seal, ...]

    @property
    def resume_digest(self) -> Optional[str]:
        """The manifest's digest of what it resumes from; None for nothing, and where no seal tells,
        as of what another run saved."""
        origin = None if self.resume_from is None else checkpoint_of(self.resume_from)
        for seal in self.seals:
            for step, digest in seal.steps:
                if (seal.epoch, step) == origin:
                    return digest
        return None


@dataclass(frozen=True)
class Started:
    """The owner of an epoch that began: the listed processes, by rank, and which grant it was."""

    grant_nonce: str
    placement: str
    nonces: Tuple[str, ...]


@dataclass(frozen=True)
class Revoked:
    """The owner of an epoch that never began and never will. ``by`` names who decided it."""

    by: str


@dataclass(frozen=True)
class DrainOrder:
    """A wish that the gang saves and says so. ``deadline_unix_s`` None: no time is set."""

    reason: str
    grace_s: float
    deadline_unix_s: Optional[float]


@dataclass(frozen=True)
class Fence:
    """The word to an epoch to stop. It is never removed."""

    reason: str


@dataclass(frozen=True)
class Report:
    """What a running process last said. ``beat`` moves with every report.

    ``trouble`` is what its training says of checkpoints that it cannot save, empty for nothing.
    """

    rank: int
    nonce: str
    beat: int
    phase: str
    step: Optional[int]
    loss: Optional[float]
    samples: Optional[int]
    is_drained: bool
    drained_step: Optional[int]
    trouble: str = ""


PREPARING = "preparing"
RUNNING = "running"
STOPPING = "stopping"
PHASES = (PREPARING, RUNNING, STOPPING)


@dataclass(frozen=True)
class End:
    """The last word of a process: it left the gate, was stopped, or its command exited.

    ``exit_code`` and ``signal`` are the command's (None if it never ran). ``was_asked``: before
    its command ended it had heard that its gang should leave, or that its machine goes.
    ``at_unix_s`` is the wall clock of the machine, for people.
    """

    rank: int
    nonce: str
    kind: str
    cause: str
    exit_code: Optional[int]
    signal: Optional[int]
    was_asked: bool
    at_unix_s: float


LEFT_GATE = "LEFT_GATE"
STOPPED = "STOPPED"
EXITED = "EXITED"
END_KINDS = (LEFT_GATE, STOPPED, EXITED)


@dataclass(frozen=True)
class RunKeys:
    """Every key of one run. ``run_key`` is an opaque, url-safe id that the broker gave it."""

    run_key: str

    def __post_init__(self) -> None:
        check_name(self.run_key)

    @property
    def root(self) -> str:
        """The prefix of all that the run has in a store."""
        return f"runs/{self.run_key}/"

    @property
    def placements(self) -> str:
        """The prefix of the run's placements."""
        return f"{self.root}placements/"

    def gates(self, placement: str) -> str:
        """The prefix of the gate of one placement."""
        return f"{self.placements}{check_name(placement)}/gate/"

    def gate(self, placement: str, nonce: str) -> str:
        """Where one process shows that it stands at the gate."""
        return self.gates(placement) + check_nonce(nonce)

    def gate_end(self, placement: str, nonce: str) -> str:
        """Where a process that left without ever seeing a grant says so."""
        return f"{self.gate(placement, nonce)}.end"

    def grant(self, placement: str) -> str:
        """Where the one grant of a placement is."""
        return f"{self.placements}{check_name(placement)}/grant"

    def owner(self, number: int) -> str:
        """Where it is decided whether the epoch of this number started. By number: see the top."""
        if not 0 < number <= MAX_EPOCH_NUMBER:
            raise BadKey(f"epoch number {number}")
        return f"{self.root}e{number:06d}/owner"

    def epoch(self, epoch: EpochId) -> str:
        """The prefix of all that one start writes."""
        check_nonce(epoch.nonce)
        return f"{self.root}{epoch.name}/"

    def drain(self, epoch: EpochId) -> str:
        """Where the gang is asked to save and let go."""
        return f"{self.epoch(epoch)}control/drain"

    def fence(self, epoch: EpochId) -> str:
        """Where the gang is told to stop."""
        return f"{self.epoch(epoch)}control/fence"

    def reports(self, epoch: EpochId) -> str:
        """The prefix of the gang's reports and ends."""
        return f"{self.epoch(epoch)}report/"

    def report(self, epoch: EpochId, nonce: str) -> str:
        """Where one process reports."""
        return self.reports(epoch) + check_nonce(nonce)

    def end(self, epoch: EpochId, nonce: str) -> str:
        """Where one process says its last word."""
        return f"{self.report(epoch, nonce)}.end"

    def checkpoints(self, epoch: EpochId) -> str:
        """The prefix of the epoch's checkpoints."""
        return f"{self.epoch(epoch)}checkpoints/"

    def checkpoint(self, epoch: EpochId, step: int) -> str:
        """One checkpoint folder, as ``Grant.resume_from`` names it: no slash at its end."""
        return f"{self.checkpoints(epoch)}step-{step}"


def bundle_key(digest: str) -> str:
    """Where a bundle is kept, by the sha256 of its bytes."""
    if not _DIGEST.fullmatch(digest):
        raise BadKey(f"bundle digest {digest[:80]!r}")
    return f"bundles/{digest}.tar.gz"


IDENTITY = "identity"
"""Where a store keeps what the first broker called it."""


def incarnation_key(number: int) -> str:
    """Where a broker says that it is the ``number``-th life of its data."""
    return f"incarnations/{number:06d}"


def is_nonce(text: str) -> bool:
    """Whether the text could be a nonce: 8 to 64 hexadecimal digits."""
    return _NONCE.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Whether the text can be a run key or a placement id in a key."""
    return _NAME.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Whether the text is a sha256 in hex."""
    return _DIGEST.fullmatch(text) is not None


def check_nonce(text: str) -> str:
    """Return the nonce, or raise BadKey."""
    if not is_nonce(text):
        raise BadKey(f"nonce {text[:80]!r}")
    return text


def check_name(text: str) -> str:
    """Return the name, or raise BadKey."""
    if not is_name(text):
        raise BadKey(f"name {text[:80]!r}")
    return text


def epoch_of(folder: str) -> Optional[EpochId]:
    """Read an epoch's folder name; None if it is something else."""
    found = _EPOCH.fullmatch(folder)
    number = None if found is None else owner_number_of(f"e{found.group(1)}")
    if found is None or number is None:
        return None
    return EpochId(number=number, nonce=found.group(2))


def owner_number_of(folder: str) -> Optional[int]:
    """Read the folder name of an owner; None if it is something else.

    There is no epoch 0, and one number has one name: what has another was never written by us.
    """
    found = _OWNER_FOLDER.fullmatch(folder)
    number = int(found.group(1)) if found else 0
    return number if number > 0 and folder == f"e{number:06d}" else None


def step_of(folder: str) -> Optional[int]:
    """Read a checkpoint's folder name; None if it is something else."""
    found = _STEP.fullmatch(folder)
    return int(found.group(1)) if found else None


def checkpoint_of(path: str) -> Optional[Tuple[EpochId, int]]:
    """Read a checkpoint's path, as grants and seals carry it: its epoch and its step."""
    parts = path.split("/")
    if len(parts) != 5 or parts[0] != "runs" or not is_name(parts[1]) or parts[3] != "checkpoints":
        return None
    epoch, step = epoch_of(parts[2]), step_of(parts[4])
    return None if epoch is None or step is None else (epoch, step)
