"""Runs in the log with a past: what the loops would have told it."""

from __future__ import annotations

from typing import Any

from broker.history.commands import RunCommand
from broker.history.events import RunEvent
from broker.model.run import Run
from tests.builders import Story
from tests.service.rig import DIGITS, Rig


class Told(Story):
    """A story that remembers the commands it was told with."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[RunCommand] = []

    def tell(self, command: RunCommand, **context: Any) -> tuple[RunEvent, ...]:
        self.commands.append(command)
        return super().tell(command, **context)


async def training(rig: Rig, *, sealed: bool = False) -> Run:
    """Put a run into the log that trains in alpha, at step 120, its step 100 copied to beta.

    With ``sealed`` its machines were taken since, and step 100 counts.
    """
    story = Told()
    story.accepted().training("alpha").trained(120).saved(100, "beta")
    if sealed:
        story.preempted()
    await rig.tell(*story.commands)
    return rig.run(DIGITS)
