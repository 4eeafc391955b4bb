"""One use of the program: which broker, which team, and for whom the output is.

Read ``Session.client`` first.
"""

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import click

from broker.cli.saying import say
from broker.sdk.errors import BrokerError, IntentError
from broker.sdk.plain import Client
from broker.sdk.settings import Settings, find

if TYPE_CHECKING:
    from google.protobuf.message import Message

RETRY_FOR_S = 2.0  # a person waits at a terminal; watchers wait longer
WATCH_FOR_S = 600.0


class Session:
    """One use of the program."""

    def __init__(self, *, server: str, team: str, is_json: bool) -> None:
        self._said = (server, team)
        self.is_json = is_json
        self._clients: list[Client] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()

    @cached_property
    def settings(self) -> Settings:
        """Which broker, team and user."""
        return find(server=self._said[0], team=self._said[1])

    @cached_property
    def client(self) -> Client:
        """The connection."""
        return self._connect(RETRY_FOR_S, None)

    @cached_property
    def patient_client(self) -> Client:
        """A connection for what goes on for hours: it waits while the broker is started again."""
        return self._connect(WATCH_FOR_S, _tell_once())

    def _connect(self, retry_for_s: float, on_retry: Any) -> Client:
        client = Client(self.settings, retry_for_s=retry_for_s, on_retry=on_retry)
        self._clients.append(client)
        return client

    @property
    def team(self) -> str:
        """The id of the team."""
        return self.settings.team

    def run_name(self, said: str) -> str:
        """Return the full name of ``RUN``, ``TEAM/RUN`` or ``teams/TEAM/runs/RUN``."""
        parts = said.split("/")
        match parts:
            case [run] if run:
                return f"teams/{self.team}/runs/{run}"
            case [team, run] if team and run:
                return f"teams/{team}/runs/{run}"
            case ["teams", team, "runs", run] if team and run:
                return said
        raise IntentError("RUN", f"{said[:80]!r} is neither RUN nor TEAM/RUN")

    def say(self, text: str = "") -> None:
        """Write a line for people."""
        say(text)

    def note(self, text: str) -> None:
        """Write a line that is not part of the answer."""
        say(text, is_error=True)

    def show_json(self, value: "Message | dict[str, Any]", *, is_line: bool = False) -> None:
        """Write JSON for programs; ``is_line``: one of many, on a line of its own."""
        import json

        if not isinstance(value, dict):
            from broker.sdk.showing import as_json

            value = as_json(value)
        click.echo(json.dumps(value, indent=None if is_line else 2))

    @property
    def now_s(self) -> float:
        """The time, in Unix seconds."""
        return time.time()


def _tell_once() -> Any:
    """Return what says that the broker does not answer: once, not at each attempt."""
    said: list[float] = []

    def tell(error: BrokerError) -> None:
        if not said or time.monotonic() - said[-1] > 60:
            say(f"({error.message}; trying again)", is_error=True)
            said.append(time.monotonic())

    return tell
