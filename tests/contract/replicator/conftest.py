"""The stores that the suites of this folder run on; ``pairs`` says how real buckets join."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from replicator.stores import ContentStore, DirectoryStore
from tests.contract.replicator.pairs import BUCKETS, REAL, Pair, fake_pair, real_pair
from tests.fakes.object_store import MemoryObjectStore

KINDS = ("memory", "directory", "gcs", *REAL)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say whether it was about real buckets."""
    told = " and ".join(BUCKETS) if REAL else "none, BROKER_TEST_BUCKETS does not name two"
    terminalreporter.write_line(f"real buckets: {told}")


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContentStore]:
    """A store of each kind."""
    with ExitStack() as stack:
        yield _open(str(request.param), tmp_path / "store", stack)


@pytest.fixture(params=["gcs", *REAL])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two stores that copy by themselves."""
    opened = real_pair() if request.param == "buckets" else fake_pair()
    with opened as found:
        yield found


def _open(kind: str, folder: Path, stack: ExitStack) -> ContentStore:
    made: dict[str, Callable[[], ContentStore]] = {
        "memory": MemoryObjectStore,
        "directory": lambda: DirectoryStore.create(folder),
        "gcs": lambda: stack.enter_context(fake_pair()).source,
        "buckets": lambda: stack.enter_context(real_pair()).source,
    }
    return made[kind]()
