"""``make demo``: one training run over three regions of this machine, from intent to result.

The rule: it ends as it began, with no process and no file of its own left. Read ``main`` first.
"""

import argparse
import asyncio
import signal
import sys
import types

from rich.console import Console

from broker.demo.chronicle import StoryError
from broker.demo.household import Household, HouseholdError
from broker.demo.screen import Screen
from broker.demo.story import REGIONS, Pace, tell

FAILED, INTERRUPTED = 1, 130
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NEXT = """
To play with it yourself, in two terminals, after `. .venv/bin/activate` in each:

  brokerd                            three regions, kept in ~/.local/state/broker

  cd deploy/examples/plain           a training script of fifty lines
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
    pace = _pace(arguments)
    for number in _STOPPING[1:]:
        signal.signal(number, _as_ctrl_c)
    household = Household()
    status = FAILED
    try:
        household.open()
        with Screen(REGIONS, Console(highlight=False)) as screen:
            asyncio.run(tell(household, screen, pace))
        status = 0
    except (StoryError, HouseholdError) as error:
        sys.stderr.write(f"demo: {error}\n")
    except KeyboardInterrupt:
        sys.stderr.write("\ndemo: interrupted; ending the regions and removing their files\n")
        status = INTERRUPTED
    finally:
        is_clean = _clean_up(household)
    if not is_clean:
        sys.stderr.write(f"demo: something is left in {household.folder}\n")
        return status or FAILED
    if status == 0:
        sys.stdout.write(NEXT)
    return status


def _clean_up(household: Household) -> bool:
    """End everything. A second Ctrl-C must not leave half of it."""
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)
    return household.close()


def _as_ctrl_c(_: int, __: types.FrameType | None) -> None:
    """Do what a Ctrl-C does, which asyncio turns into an orderly end."""
    signal.raise_signal(signal.SIGINT)


def _pace(arguments: list[str]) -> Pace:
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
