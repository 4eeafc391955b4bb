"""How one member is started: the launcher in front of the command, and what both are told.

The rule: what the protocol says to a process cannot be overridden by what a user sets, and nothing
of the daemon's own environment reaches it but what any process needs. Read ``environment`` first.
"""

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from regions.local.config import WorldConfig
from regions.local.intake import notice_s
from regions.local.state import GangSpec, Job, Member

_INHERITED = ("HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH")
_DEFAULTS = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
"""As torchrun has it: many processes of one machine, each with threads for all of its cores, are
slower than with one."""

OBJECT, QUEUE, FLAVOR = "BROKER_LOCAL_OBJECT", "BROKER_LOCAL_QUEUE", "BROKER_LOCAL_FLAVOR"
"""What lets a daemon that lost its state say what a running process belongs to."""


def command(launcher: Path, spec: GangSpec) -> tuple[str, ...]:
    """Put the launcher in front of the user's command. It needs no packages and starts sooner
    without looking for them; the command's own interpreter is not touched by its options."""
    return (sys.executable, "-I", "-S", str(launcher), "--", *spec.command)


def environment(
    config: WorldConfig, job: Job, spec: GangSpec, member: Member, *, folder: Path
) -> dict[str, str]:
    """All that one member's processes are told."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**inherited, **_DEFAULTS, **spec.env, **_protocol(config, job, spec, member, folder)}


def _protocol(
    config: WorldConfig, job: Job, spec: GangSpec, member: Member, folder: Path
) -> Mapping[str, str]:
    whole_s = notice_s(spec, config.flavor(spec.flavor))
    pace = config.launcher
    own_path = spec.env.get("PATH", os.environ.get("PATH", os.defpath))
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{own_path}",
        "PYTHON": sys.executable,
        "RANK": str(member.rank),
        "WORLD_SIZE": str(job.nodes_wanted),
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(job.master_port),
        "BROKER_RUN": spec.run_name,
        "BROKER_RUN_KEY": spec.run_key,
        "BROKER_PLACEMENT": spec.placement,
        "BROKER_STORE": config.store,
        "BROKER_STORE_TOKENS": config.store_tokens,
        "BROKER_STORE_ENDPOINT": config.store_endpoint,
        "BROKER_REGION": config.region,
        "BROKER_WORK_DIR": str(folder),
        "BROKER_EXIT_FILE": str(folder / "exit.json"),
        "BROKER_GATE_TIMEOUT_S": _seconds(spec.gate_timeout_s),
        "BROKER_GATE_POLL_S": _seconds(pace.gate_poll_s),
        "BROKER_GATE_FRESH_S": _seconds(pace.gate_fresh_s),
        "BROKER_CONTROL_POLL_S": _seconds(pace.control_poll_s),
        "BROKER_REPORT_S": _seconds(pace.report_s),
        "BROKER_END_RETRY_S": _seconds(pace.end_retry_s),
        # Of a short notice most is for saving: the launcher's own grace comes out of it.
        "BROKER_NOTICE_S": _seconds(whole_s),
        "BROKER_GRACE_S": _seconds(min(spec.stop_grace_s, 0.4 * whole_s)),
        OBJECT: job.uid,
        QUEUE: job.queue,
        FLAVOR: job.flavor,
    }


def _seconds(value: float) -> str:
    return f"{max(0.01, value):g}"


class MasterPorts:
    """Ports at which gangs meet, each given to one gang of one cluster of this machine at a time.

    Holding a port open would keep the gang's rank 0 from using it, so a name stands for it: a
    socket in the abstract namespace, which the kernel gives to one process and takes back from a
    dead one.
    """

    def __init__(self, low: int, high: int, start: int) -> None:
        self._low = low
        self._count = high - low + 1
        self._next = start
        self._held: dict[int, socket.socket] = {}

    def take(self) -> int:
        """Return a port that nobody listens on and no other gang was given. Raises OSError."""
        for _ in range(self._count):
            port = self._low + self._next % self._count
            self._next += 1
            if self.hold(port):
                if _is_free(port):
                    return port
                self.give_back(port)
        raise OSError(f"no port is free from {self._low} on")

    def hold(self, port: int) -> bool:
        """Claim a port, as after a restart. False: another cluster has it."""
        if port in self._held:
            return False
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0capacity-broker-port-{port}")
        except OSError:
            claim.close()
            return False
        self._held[port] = claim
        return True

    def give_back(self, port: int) -> None:
        """Let others have a port."""
        claim = self._held.pop(port, None)
        if claim is not None:
            claim.close()

    def keep_only(self, ports: set[int]) -> None:
        """Give back all but these."""
        for port in self._held.keys() - ports:
            self.give_back(port)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return True
    return False
