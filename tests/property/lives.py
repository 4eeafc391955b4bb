"""Lives of one run: random commands, told in order, with what each made of the run.

A life is up to eighty commands, true, late, repeated or false, decided and folded by the
production rules. Read ``tell_life`` first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from random import Random

from hypothesis import settings
from hypothesis import strategies as st

from broker.history.commands import RunCommand
from broker.history.events import RunEvent
from broker.history.refusals import Refused
from broker.model.run import Run
from tests.builders import Story, make_checkpoint, make_intent
from tests.property.world import any_command, terms

LENGTHS = (5, 10, 20, 40, 80)  # commands
SHARED_SEEDS = 80


@dataclass(frozen=True)
class Step:
    """One command that was told, with what it made of the run."""

    before: Run
    command: RunCommand
    events: tuple[RunEvent, ...]
    after: Run
    now_s: float


@dataclass(frozen=True)
class Life:
    """A run's whole story, and its steps."""

    story: Story
    steps: tuple[Step, ...]

    @property
    def run(self) -> Run:
        return self.story.run

    @property
    def events(self) -> list[RunEvent]:
        return self.story.events


def tell_life(seed: int, length: int) -> Life:
    """Tell a run that many commands. Refusals are as welcome as events."""
    chance = Random(seed)
    story = Story(intent=make_intent(terms=terms(chance)))
    if chance.random() < 0.25:
        seed_of_fork = make_checkpoint(50)
        ref = replace(seed_of_fork.ref, run_uid="p" * 20)
        story.submit = replace(story.submit, fork_checkpoint=replace(seed_of_fork, ref=ref))
    story.do(story.submit)
    steps: list[Step] = []
    for serial in range(length):
        story.wait(chance.choice((0.0, 1.0, 7.0, 60.0)))
        before = story.run
        command = any_command(chance, before, serial)
        try:
            events = story.tell(command)
        except Refused:
            # A refusal leaves no trace.
            assert story.run is before
            continue
        steps.append(
            Step(
                before=before,
                command=command,
                events=events,
                after=story.run,
                now_s=story.now.elapsed_s,
            )
        )
    return Life(story=story, steps=tuple(steps))


@cache
def tell_life_once(seed: int, length: int) -> Life:
    """Tell a life, or give the one that was told: a life is a value, and every law reads it."""
    return tell_life(seed, length)


def lives() -> st.SearchStrategy[Life]:
    """Lives of several lengths: Hypothesis shortens one that breaks a law.

    The laws share a few hundred lives, which is what makes them quick; a search draws afresh.
    """
    is_search = settings.default is not None and settings.default.max_examples > 100
    seeds = st.integers(0, 2**32 if is_search else SHARED_SEEDS)
    tell = tell_life if is_search else tell_life_once
    return st.builds(tell, seed=seeds, length=st.sampled_from(LENGTHS))
