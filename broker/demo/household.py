"""The stage of ``make demo``: one temporary folder, a brokerd, and its embedded regions.

The rule: whatever ends the demo ends them all, by one mechanism. Everything hangs on pipes that
the kernel closes with the demo: brokerd and the regions end with the first one, and with the
second one a sweeper removes what is left. A good end closes the same pipes. Read
``Household.close`` first.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from broker.demo import sweeper
from broker.demo.stage import FIRST, SECOND, StageError
from broker.sdk import AsyncClient
from broker.v1 import intent_pb2, local_service_pb2

START_S = 60.0
STOP_S = 20.0
SWEEP_S = sweeper.REGIONS_S + sweeper.FILES_S
SOCKET = "brokerd.sock"
SOCKET_BYTES_MAX = 107  # of a path, by the kernel
LAST_WORDS = 800
SPOT = "h100-spot"


class Household:
    """A brokerd with three embedded regions, in a folder of its own."""

    head = (
        "The capacity broker: a training run over three regions, from intent to result",
        "Daemon, clusters, processes, training and checkpoints are real; GPUs are counted,",
        "not there. About a minute; Ctrl-C ends it all and leaves nothing behind.",
    )

    def __init__(self) -> None:
        self.folder = Path()
        self._descriptors: list[int] = []
        self._lifeline = -1  # read by brokerd and the regions; only the demo holds its other end
        self._sign_of_life = -1  # held by the demo and brokerd; the sweeper reads its other end
        self._brokerd: subprocess.Popen[bytes] | None = None
        self._sweeper: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Make the folder, and start what will remove it."""
        self.folder = Path(tempfile.mkdtemp(prefix="broker-demo-", dir=_root()))
        self._lifeline, held = os.pipe()
        watched, self._sign_of_life = os.pipe()
        self._descriptors = [self._lifeline, held, self._sign_of_life]
        self._sweeper = subprocess.Popen(
            [sys.executable, "-m", "broker.demo.sweeper", str(watched), str(self.folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(watched,),
            start_new_session=True,  # a Ctrl-C is the demo's to hear
        )
        os.close(watched)

    @property
    def address(self) -> str:
        """Where brokerd listens."""
        return f"unix:{self.folder / SOCKET}"

    @property
    def pid(self) -> int:
        """The process id of brokerd; 0 when it does not run."""
        return self._brokerd.pid if self._brokerd is not None else 0

    def store(self, region: str) -> Path:
        """The directory that is a region's store."""
        return self.folder / "embedded" / region / "store"

    def start(self) -> None:
        """Start brokerd; ``check`` says while one waits whether it still can answer."""
        command = [sys.executable, "-m", "broker.daemon", "--data-dir", str(self.folder)]
        with (self.folder / "brokerd.log").open("ab") as log:
            self._brokerd = subprocess.Popen(
                [*command, "--lifeline", str(self._lifeline)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(self._lifeline, self._sign_of_life),
                start_new_session=True,
            )

    def check(self, began_s: float) -> None:
        """Raise StageError when brokerd has ended, or takes longer than it may."""
        brokerd = self._brokerd
        if brokerd is not None and brokerd.poll() is not None:
            raise StageError(f"brokerd ended with {brokerd.returncode}: {self._last_words()}")
        if time.monotonic() - began_s > START_S:
            raise StageError(f"brokerd does not answer: {self._last_words()}")

    async def is_ready(self, client: AsyncClient) -> bool:
        """Whether brokerd answers: it does once it knows its regions."""
        await client.teams.broker()
        return True

    def dress(self, intent: intent_pb2.Intent) -> None:
        """Leave the intent as it is: embedded regions want nothing of it."""

    async def run_short(self, client: AsyncClient, machines: int) -> None:
        """Let FIRST have so many spot machines, and no more."""
        partial = local_service_pb2.PartialArrival(flavor=SPOT, nodes=machines)
        await client.regions.inject(
            local_service_pb2.InjectFaultRequest(region=f"regions/{FIRST}", partial=partial)
        )

    async def preempt(self, client: AsyncClient, notice_s: int) -> None:
        """Take back all spot machines of SECOND, with a notice."""
        fault = local_service_pb2.InjectFaultRequest(
            region=f"regions/{SECOND}", preempt=local_service_pb2.Preemption(flavor=SPOT)
        )
        fault.preempt.notice.FromSeconds(notice_s)
        await client.regions.inject(fault)

    def kill(self) -> None:
        """Kill brokerd, as a power cut would: SIGKILL."""
        if self._brokerd is not None:
            self._brokerd.kill()
            self._brokerd.wait()
            self._brokerd = None

    def close(self) -> bool:
        """End brokerd, the regions and their gangs, and remove the folder.

        Returns whether nothing is left of them.
        """
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []
        if self._brokerd is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._brokerd.wait(STOP_S)
            self.kill()
        if self._sweeper is None:  # interrupted before it was there
            return self.folder == Path() or sweeper.sweep(self.folder)
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._sweeper.wait(SWEEP_S) == 0:
                return True
        return sweeper.sweep(self.folder)

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            said = (self.folder / "brokerd.log").read_text(errors="replace")
            return said[-LAST_WORDS:].strip()
        return "it left no word"


def _root() -> str:
    """Where temporary files go, unless a socket in there would have too long a name."""
    root = tempfile.gettempdir()
    longest = Path(root) / "broker-demo-12345678" / SOCKET
    return root if len(os.fsencode(longest)) <= SOCKET_BYTES_MAX else "/tmp"
