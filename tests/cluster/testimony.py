"""What the gangs of the hedged runs do: nothing, for a while, and each process testifies to it.

The rule: each process has a file of its own, and nobody else writes to it; its start and its end
are on the disk before it goes on, and in between it says again and again that it is still there. So
what a killed process did is known, too. Started as a file, with the standard library alone. The
clock is the machine's, the same for all processes of it. Read ``main``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

BEAT_S = 0.1


class Stopped(Exception):
    """The process was asked to end."""


def main(folder: Path, lasts_s: float) -> int:
    """Testify in a folder, train for so long, and testify to the end."""
    epoch = Path(urlsplit(os.environ["BROKER_CHECKPOINT_URI"]).path).parent.name
    rank, region = int(os.environ["RANK"]), os.environ["BROKER_REGION"]
    who = {"run": os.environ["BROKER_RUN"], "epoch": epoch, "region": region, "rank": rank}
    path = folder / f"{epoch}-{rank}-{region}-{os.getpid()}.json"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)

    def say(what: str, *, is_kept: bool = False) -> None:
        line = {**who, "what": what, "at_s": time.monotonic()}
        os.write(file, json.dumps(line).encode() + b"\n")
        if is_kept:
            os.fsync(file)

    def stop(_number: int, _frame: object) -> None:
        raise Stopped

    signal.signal(signal.SIGTERM, stop)
    say("start", is_kept=True)
    try:
        until = time.monotonic() + lasts_s
        while time.monotonic() < until:
            time.sleep(BEAT_S)
            say("beat")
    except Stopped:
        say("stopped", is_kept=True)
        return 143
    say("end", is_kept=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
