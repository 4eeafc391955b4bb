"""The program: ``broker``, and ``python -m broker.cli``.

The rule: who interrupts it gets the terminal back. An interruption can be lost in a callback, and
threads below Python can keep an interpreter from ending; neither may hold up who pressed Ctrl-C.
"""

import signal
import sys
from types import FrameType
from typing import NoReturn

from broker.cli import exits
from broker.cli.main import main

LEAVES_WITHIN_S, ENDS_WITHIN_S = 30, 5
"""What is interrupted has so long to say how to go on and to give up what it began, and then so
long to end."""


def program() -> NoReturn:
    """Run the command that was typed, and end the process with its exit code."""
    signal.signal(signal.SIGINT, _interrupt)
    code = main()
    if code == exits.INTERRUPTED:
        signal.alarm(ENDS_WITHIN_S)
    sys.exit(code)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    signal.alarm(LEAVES_WITHIN_S)  # the process ends by it, whatever Python does then
    raise KeyboardInterrupt


if __name__ == "__main__":
    program()
