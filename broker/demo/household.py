"""What the demo keeps while it lasts: one temporary folder, a brokerd, and its regions.

The rule: whatever ends the demo ends them all. Everything hangs on a pipe whose writing end only
the demo holds, and a demo that can still act stops them in order and removes the folder.
Read ``Household.close`` first.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START_S = 60.0
STOP_S = 20.0
SWEEP_S = 60.0


class HouseholdError(Exception):
    """brokerd did not start; the sentence holds its last words."""


class Household:
    """A brokerd with three embedded regions, in a folder of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="broker-demo-"))
        self.address = f"unix:{self.folder / 'brokerd.sock'}"
        self._lifeline, self._held = os.pipe()
        self._brokerd: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of brokerd; 0 when it does not run."""
        return self._brokerd.pid if self._brokerd is not None else 0

    def start(self) -> None:
        """Start brokerd; ``wait_ready`` says when it answers."""
        os.set_inheritable(self._lifeline, True)
        with (self.folder / "brokerd.log").open("ab") as log:
            self._brokerd = subprocess.Popen(
                [*_BROKERD, "--data-dir", str(self.folder), "--lifeline", str(self._lifeline)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(self._lifeline,),
                start_new_session=True,  # a Ctrl-C is the demo's to hear
            )

    def check(self, began_s: float) -> None:
        """Raise HouseholdError when brokerd has ended, or takes longer than it may."""
        brokerd = self._brokerd
        if brokerd is not None and brokerd.poll() is not None:
            raise HouseholdError(f"brokerd ended with {brokerd.returncode}: {self._last_words()}")
        if time.monotonic() - began_s > START_S:
            raise HouseholdError(f"brokerd does not answer: {self._last_words()}")

    def kill(self) -> None:
        """Kill brokerd, as a power cut would: SIGKILL."""
        if self._brokerd is not None:
            self._brokerd.kill()
            self._brokerd.wait()
            self._brokerd = None

    def close(self) -> None:
        """End brokerd, the regions and their gangs, and remove the folder."""
        if self._brokerd is not None:
            self._brokerd.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._brokerd.wait(STOP_S)
            self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [*_BROKERD, "stop-embedded", "--data-dir", str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                timeout=SWEEP_S,
                check=False,
            )
        for end in (self._held, self._lifeline):
            with contextlib.suppress(OSError):
                os.close(end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            return (self.folder / "brokerd.log").read_text(errors="replace")[-800:].strip()
        return "it left no word"


_BROKERD = (sys.executable, "-m", "broker.daemon")
