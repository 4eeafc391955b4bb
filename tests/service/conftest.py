"""What every test of the service begins with: a server of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.service.rig import Rig, serving


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A server on a Unix socket, for the length of a test."""
    async with serving(tmp_path) as rig:
        yield rig
