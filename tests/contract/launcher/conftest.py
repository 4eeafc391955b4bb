"""The stores and the regions that the suites of this folder run on: directories, and buckets.

A bucket is on the fake, which asks for tokens, and these come from a metadata server, a fake too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tests.contract.launcher.gangs import Site, Sites, site_at
from tests.contract.launcher.shelves import BucketShelf, DirectoryShelf, Shelf, buckets


@pytest.fixture(params=["directory", "bucket"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    """A store of each kind, and what can befall it."""
    with ExitStack() as stack:
        yield _shelf(str(request.param), tmp_path / "root", stack)


@pytest.fixture(params=["directory", "bucket"])
def sites(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sites]:
    """Regions of each kind, made by their names."""
    with ExitStack() as stack:

        def made(name: str) -> AbstractContextManager[Site]:
            home = tmp_path / name
            return site_at(home, _shelf(str(request.param), home / "store", stack))

        yield made


@pytest.fixture
def site(sites: Sites) -> Iterator[Site]:
    """One region."""
    with sites("east") as made:
        yield made


def _shelf(kind: str, root: Path, stack: ExitStack) -> Shelf:
    if kind == "directory":
        return DirectoryShelf(root)
    return BucketShelf(*stack.enter_context(buckets()))
