"""What a launcher is told by its environment. Nothing else in the package reads the environment.

===========================  ==============================================================
``BROKER_STORE``             the region's store: a ``file://`` URI, an absolute path, or
                             ``gs://bucket/folder``
``BROKER_STORE_TOKENS``      of a bucket: the file of its token, or where the metadata server has
                             one (the metadata server's usual place)
``BROKER_STORE_ENDPOINT``    of a bucket: who serves it (Google)
``BROKER_RUN_KEY``           the run's key in the store
``BROKER_PLACEMENT``         the placement that this gang is
``RANK``, ``WORLD_SIZE``     this process's rank, and the number of them
``BROKER_MEMBER``            the cluster's own name of this process, never reused (none)
``BROKER_NODE``              its name of the machine that this process is on (none)
``BROKER_GANG``              its name of the object that this process is of, never reused (none)
``BROKER_CLUSTER``           which cluster that is, as the broker calls it (none)
``BROKER_WORK_DIR``          a local directory; each process makes a private one in it
``BROKER_GATE_TIMEOUT_S``    how long to stand at the gate (3600)
``BROKER_GATE_POLL_S``       how often the count moves and the gate is looked at (1), and oftener
                             in the first seconds
``BROKER_GATE_FRESH_S``      how long a count that moved proves that its process is there (15)
``BROKER_CONTROL_POLL_S``    how often ``control`` is looked at while training (3)
``BROKER_REPORT_S``          how often a running process reports (5)
``BROKER_GRACE_S``           from SIGTERM to SIGKILL (10)
``BROKER_NOTICE_S``          from a SIGTERM that the launcher receives to SIGKILL, in all (25)
``BROKER_LOSS_FIELD``        the field of a progress note that is the loss (loss)
``BROKER_END_RETRY_S``       how long the end report is retried after the exit (60)
``BROKER_EXIT_FILE``         where to keep the end on this machine too (``exit.json`` in the
                             private directory)
===========================  ==============================================================

A cluster may tell any of these, and any others, in the one variable ``BROKER_LAUNCH``
(``envelope``).

What the cluster sets beside these (``LOCAL_RANK``, ``MASTER_ADDR``, ``MASTER_PORT``,
``BROKER_RUN``, the user's own) is passed on as it is. The rule: a value that cannot be right is
refused by name. Read ``read_settings`` first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, Mapping, Optional, Tuple

from regions.launcher import layout
from regions.launcher.envelope import BadEnvelope, opened
from regions.launcher.store import InvalidKey, location_of, path_of

_OWN = (
    "BROKER_STORE",
    "BROKER_STORE_TOKENS",
    "BROKER_STORE_ENDPOINT",
    "BROKER_RUN_KEY",
    "BROKER_PLACEMENT",
    "BROKER_WORK_DIR",
    "BROKER_EXIT_FILE",
    "BROKER_LOSS_FIELD",
)
_DURATIONS = {
    "BROKER_GATE_TIMEOUT_S": 3600.0,
    "BROKER_GATE_POLL_S": 1.0,
    "BROKER_GATE_FRESH_S": 15.0,
    "BROKER_CONTROL_POLL_S": 3.0,
    "BROKER_REPORT_S": 5.0,
    "BROKER_GRACE_S": 10.0,
    "BROKER_NOTICE_S": 25.0,
    "BROKER_END_RETRY_S": 60.0,
}
LOSS_FIELD = "loss"
_MAX_DURATION_S = 30 * 86400.0


class BadSettings(ValueError):
    """A variable is missing or cannot be right; the message names it."""


@dataclass(frozen=True)
class Settings:
    """What one launcher process was told. Durations in seconds.

    ``store`` is a path, or ``gs://bucket/folder``; ``store_tokens`` and ``store_endpoint`` are
    empty where the usual ones are meant.
    """

    store: str
    store_tokens: str
    store_endpoint: str
    run_key: str
    placement: str
    rank: int
    world_size: int
    member: str
    node: str
    gang: str
    cluster: str
    work_dir: str
    exit_file: Optional[str]
    gate_timeout_s: float
    gate_poll_s: float
    gate_fresh_s: float
    control_poll_s: float
    report_s: float
    grace_s: float
    notice_s: float
    end_retry_s: float
    loss_field: str
    command: Tuple[str, ...]
    passed_on: Dict[str, str]


def read_settings(environ: Mapping[str, str], command: Tuple[str, ...]) -> Settings:
    """Read and check everything, or raise BadSettings."""
    if not command:
        raise BadSettings("no command to run was given")
    try:
        environ = opened(environ)
    except BadEnvelope as error:
        raise BadSettings(str(error)) from error
    world_size = _whole(environ, "WORLD_SIZE", 1, layout.MAX_RANKS)
    seconds = {name: _seconds(environ, name, default) for name, default in _DURATIONS.items()}
    exit_file = environ.get("BROKER_EXIT_FILE") or None
    return Settings(
        store=_location(environ, "BROKER_STORE"),
        store_tokens=environ.get("BROKER_STORE_TOKENS", ""),
        store_endpoint=environ.get("BROKER_STORE_ENDPOINT", ""),
        run_key=_name(environ, "BROKER_RUN_KEY"),
        placement=_name(environ, "BROKER_PLACEMENT"),
        rank=_whole(environ, "RANK", 0, world_size - 1),
        world_size=world_size,
        member=_name(environ, "BROKER_MEMBER") if environ.get("BROKER_MEMBER") else "",
        # Told on as they are, and part of no key: the length of a node's name is the cluster's.
        node=environ.get("BROKER_NODE", ""),
        gang=environ.get("BROKER_GANG", ""),
        cluster=environ.get("BROKER_CLUSTER", ""),
        work_dir=_path(environ, "BROKER_WORK_DIR"),
        exit_file=exit_file and _path(environ, "BROKER_EXIT_FILE"),
        gate_timeout_s=seconds["BROKER_GATE_TIMEOUT_S"],
        gate_poll_s=seconds["BROKER_GATE_POLL_S"],
        gate_fresh_s=seconds["BROKER_GATE_FRESH_S"],
        control_poll_s=seconds["BROKER_CONTROL_POLL_S"],
        report_s=seconds["BROKER_REPORT_S"],
        grace_s=seconds["BROKER_GRACE_S"],
        notice_s=seconds["BROKER_NOTICE_S"],
        end_retry_s=seconds["BROKER_END_RETRY_S"],
        loss_field=environ.get("BROKER_LOSS_FIELD") or LOSS_FIELD,
        command=command,
        passed_on={k: v for k, v in environ.items() if k not in _OWN and k not in _DURATIONS},
    )


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise BadSettings(f"{name} is not set")
    return value


def _name(environ: Mapping[str, str], name: str) -> str:
    value = _required(environ, name)
    if not layout.is_name(value):
        raise BadSettings(f"{name} cannot be part of a key: {value[:80]!r}")
    return value


def _location(environ: Mapping[str, str], name: str) -> str:
    try:
        return location_of(_required(environ, name))
    except InvalidKey as error:
        raise BadSettings(f"{name}: {error}") from error


def _path(environ: Mapping[str, str], name: str) -> str:
    try:
        return path_of(_required(environ, name))
    except InvalidKey as error:
        raise BadSettings(f"{name}: {error}") from error


def _whole(environ: Mapping[str, str], name: str, least: int, most: int) -> int:
    value = _required(environ, name)
    if not (value.isascii() and value.isdigit() and len(value) <= 9):
        raise BadSettings(f"{name} is not a number: {value[:80]!r}")
    if not least <= int(value) <= most:
        raise BadSettings(f"{name} is {value}, not in {least}..{most}")
    return int(value)


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    value = environ.get(name, "")
    if not value:
        return default
    try:
        seconds = float(value)
    except ValueError as error:
        raise BadSettings(f"{name} is not a number of seconds: {value[:80]!r}") from error
    if not (math.isfinite(seconds) and 0.0 < seconds <= _MAX_DURATION_S):
        raise BadSettings(f"{name} is {value[:80]}, not in 0..{_MAX_DURATION_S:.0f} seconds")
    return seconds
