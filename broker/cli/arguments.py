"""What is typed after a verb: runs, regions, durations and amounts.

The rule: what is typed wrong is told at once and with an example, before the broker is asked. Shell
completion asks it for names, and is silent when it does not answer. Read ``RUN`` first.
"""

from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from broker.sdk import quantities

NAMES_MAX = 100


class _Named(click.ParamType[str]):
    """The name of something that the broker knows."""

    def __init__(self, name: str, ask: Callable[[Any], Iterable[str]]) -> None:
        self.name = name
        self._ask = ask

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so."""
        from broker.sdk.errors import BrokerError
        from broker.sdk.plain import Client
        from broker.sdk.settings import find

        try:
            with Client(find(), retry_for_s=0) as client:
                names = list(self._ask(client))
        except BrokerError:
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class _OneOf(click.ParamType[str]):
    """A word of a few. Completion offers them; whoever reads the value says that it is none."""

    def __init__(self, name: str, words: tuple[str, ...]) -> None:
        self.name = name
        self._words = words

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the words that begin so."""
        return [CompletionItem(word) for word in self._words if word.startswith(incomplete)]


def one_of(name: str, *words: str) -> click.ParamType[str]:
    """Return the type of an argument that is one of a few words."""
    return _OneOf(name, words)


def _runs(client: Any) -> Iterable[str]:
    found = client.runs.find(client.settings.team, limit=NAMES_MAX)
    return [run.name.rpartition("/")[2] for run in found.runs]


def _regions(client: Any) -> Iterable[str]:
    return [region.name.rpartition("/")[2] for region in client.regions.find().regions]


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "number"


class _Quantity(click.ParamType[Any]):
    """A text that is read as a quantity."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the quantity."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _money(text: str) -> Decimal:
    return quantities.money_of(text)


def source_of(file: Path) -> str:
    """Return what a file is called in an error."""
    return "standard input" if str(file) == "-" else str(file)


FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
RUN = _Named("run", _runs)
REGION = _Named("region", _regions)
DURATION = _Quantity("duration", quantities.duration_s_of)
MONEY = _Quantity("usd", _money)
