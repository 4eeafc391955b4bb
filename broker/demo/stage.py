"""What the story needs of where it is told: three regions, a broker over them, and their faults.

The rule: the story is the same wherever it is told, and so is all that it asks of the broker; a
stage is what is started, killed and broken. Read ``Stage`` first.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from broker.sdk import AsyncClient
from broker.v1 import intent_pb2

FIRST, SECOND, THIRD = "us-east4", "europe-west1", "us-central1"  # by price
REGIONS = (FIRST, SECOND, THIRD)


class StageError(Exception):
    """What the story needs did not start; the sentence holds its last words."""


class Stage(Protocol):
    """Regions by the names above, each with eight spot machines of one H100, and their broker."""

    @property
    def head(self) -> Sequence[str]:
        """What it is, in a title and a few lines."""

    @property
    def folder(self) -> Path:
        """Where all of it lies."""

    @property
    def address(self) -> str:
        """Where brokerd listens."""

    @property
    def pid(self) -> int:
        """The process id of brokerd; 0 when it does not run."""

    def open(self) -> None:
        """Have the regions, or what brokerd makes them from. Raises StageError."""

    def close(self) -> bool:
        """End all of it and remove its files; returns whether nothing is left."""

    def start(self) -> None:
        """Start brokerd, without a wait."""

    def check(self, began_s: float) -> None:
        """Raise StageError when brokerd, started then, has ended or takes too long."""

    async def is_ready(self, client: AsyncClient) -> bool:
        """Whether brokerd answers, and knows its regions. Raises BrokerError, as long as not."""

    def kill(self) -> None:
        """Kill brokerd, as a power cut would: SIGKILL."""

    def store(self, region: str) -> Path:
        """The directory that is a region's store."""

    def dress(self, intent: intent_pb2.Intent) -> None:
        """Add to the intent what the regions want of any."""

    async def run_short(self, client: AsyncClient, machines: int) -> None:
        """Let FIRST have so many spot machines, and no more."""

    async def preempt(self, client: AsyncClient, notice_s: int) -> None:
        """Take back all spot machines of SECOND, with a notice."""
