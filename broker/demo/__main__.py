"""``make demo``: one training run over three regions of this machine, from intent to result.

The rule: it ends as it began, with no process and no file of its own left. Read ``main`` first.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable

from rich.console import Console

from broker.demo.chronicle import StoryError
from broker.demo.household import Household
from broker.demo.interrupts import Interrupts
from broker.demo.screen import Screen
from broker.demo.stage import REGIONS, Stage, StageError
from broker.demo.story import Pace, tell
from broker.v1.run_pb2 import Run

FAILED, INTERRUPTED = 1, 130
NEXT = """
To play with it yourself, in two terminals, after `. .venv/bin/activate` in each:

  brokerd                            three regions, kept in ~/.local/state/broker

  cd deploy/examples/plain           a short training script
  broker submit --name line --hardware 1xH100 --capacity spot -- \\
      python3 train.py --steps 600 --step-seconds 0.1
  broker status line                 where it stands, why, and what is next
  broker explain line                every place, and why or why not
  broker local preempt us-east4 --flavor h100-spot --notice 20s
  broker watch line
  broker init                        an intent of your own to start from
  brokerd stop-embedded              end the regions and their gangs; log and stores stay
"""


def main(arguments: list[str]) -> int:
    """Run the demo; returns 0 when all of its story happened."""
    status = perform(Household(), parse(arguments))
    if status == 0:
        sys.stdout.write(NEXT)
    return status


def perform(stage: Stage, pace: Pace, verify: Callable[[Run], None] | None = None) -> int:
    """Tell the story on a stage and leave nothing of it; returns 0 when all of it happened.

    ``verify`` looks at the run's end while the stage is there, and may raise StoryError.
    """
    interrupts = Interrupts()
    interrupts.listen()

    async def whole() -> None:
        run = await tell(stage, screen, pace)
        if verify is not None:
            await asyncio.to_thread(verify, run)

    try:
        stage.open()
        with Screen(REGIONS, Console(highlight=False)) as screen:
            status = 0 if interrupts.run(whole()) else INTERRUPTED
    except (StoryError, StageError) as error:
        status = INTERRUPTED if interrupts.came else FAILED
        if not interrupts.came:
            sys.stderr.write(f"demo: {error}\n")
    finally:
        if interrupts.came:
            sys.stderr.write("\ndemo: interrupted; ending the regions and removing their files\n")
        is_clean = stage.close()
    if not is_clean:
        sys.stderr.write(f"demo: something is left in {stage.folder}\n")
        return status or FAILED
    return status


def parse(arguments: list[str]) -> Pace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m broker.demo", description=__doc__)
    usual = Pace()
    parser.add_argument("--steps", type=int, default=usual.steps)
    parser.add_argument("--step-seconds", type=float, default=usual.step_s)
    parser.add_argument("--kill-at", type=int, default=usual.kill_at, metavar="STEP")
    parser.add_argument("--preempt-at", type=int, default=usual.preempt_at, metavar="STEP")
    found = parser.parse_args(arguments)
    return Pace(
        steps=found.steps,
        step_s=found.step_seconds,
        kill_at=found.kill_at,
        preempt_at=found.preempt_at,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
