"""One brokerd for all tests of the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.brokerd import Daemon, running


@pytest.fixture(scope="package")
def daemon() -> Iterator[Daemon]:
    with running() as daemon:
        yield daemon
