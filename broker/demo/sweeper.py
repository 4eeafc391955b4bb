"""What ends everything the demo began, whatever became of the demo.

``python -m broker.demo.sweeper DESCRIPTOR FOLDER`` is a process of its own, in a session of its
own. It waits on the reading end of a pipe whose writing end the demo and its brokerd hold, so it
acts once both are gone, be it by a good end, a Ctrl-C or a SIGKILL.

The rule: what it ends and removes lies in the folder that was made for this one demo. Read
``sweep`` first.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

REGIONS_S = 60.0
FILES_S = 10.0


def main(arguments: list[str]) -> int:
    """Wait for the end of demo and brokerd, then sweep. Returns 1 when something is left."""
    descriptor, folder = int(arguments[0]), Path(arguments[1])
    while os.read(descriptor, 1):
        pass
    return 0 if sweep(folder) else 1


def sweep(folder: Path) -> bool:
    """End the regions and gangs of a folder and remove it; returns whether nothing is left."""
    stop = [sys.executable, "-m", "broker.daemon", "stop-embedded", "--data-dir", str(folder)]
    try:
        subprocess.run(
            stop,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            timeout=REGIONS_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    give_up_s = time.monotonic() + FILES_S
    while folder.exists() and time.monotonic() < give_up_s:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)
    return not folder.exists()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
