"""The ways there are to keep a log; every test of this folder runs on each.

Another database joins by one more entry of ``KINDS`` that opens a ``Ledger`` over it: the suite
uses nothing but the ledger's public face.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from broker.store.ledger import Ledger
from tests.fakes.readings import HandReadings
from tests.unit.store.ledgers import opened

OpenLog = Callable[[], AbstractAsyncContextManager[Ledger]]
KINDS = {"sqlite-threaded": True, "sqlite-inline": False}


@pytest.fixture
def readings() -> HandReadings:
    """The clocks of the machine, moved by hand."""
    return HandReadings()


@pytest.fixture(params=list(KINDS))
def open_log(request: pytest.FixtureRequest, tmp_path: Path, readings: HandReadings) -> OpenLog:
    """Return what opens the one log of the test, again and again."""
    is_threaded = KINDS[request.param]
    return lambda: opened(tmp_path / "broker.db", readings, is_threaded=is_threaded)
