"""What is left of a cluster whose daemon is dead, ended and removed.

The rule: only on the word of whoever owns the directory, and never beside a living daemon.
"""

import time
from pathlib import Path

from regions.local import processes
from regions.local.disk import Disk

SWEEP_S = 10.0


def sweep(directory: Path) -> bool:
    """Kill every process of the cluster and remove its directory. False: something would not die.

    Raises DirectoryInUseError if its daemon lives: then it is asked to terminate.
    """
    if not directory.is_dir():
        return True
    disk = Disk(directory)
    disk.claim()
    give_up_s = time.monotonic() + SWEEP_S
    while (found := processes.find(disk.mark)) and time.monotonic() < give_up_s:
        processes.kill(found)
        time.sleep(0.02)
    disk.remove()
    return not found
