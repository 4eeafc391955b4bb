"""What happened, as a sentence that counts as people do."""

from __future__ import annotations

import pytest

from broker.history.events import EpochStarted
from broker.service.sentences import sentence_for
from tests.unit.history.samples import EPOCH


@pytest.mark.parametrize(("nonces", "gang"), [(("a",), "1 rank"), (("a", "b"), "2 ranks")])
def test_a_gang_is_counted_in_ranks(nonces: tuple[str, ...], gang: str) -> None:
    said = sentence_for(EpochStarted(epoch=EPOCH, nonces=nonces))
    assert said.endswith(f"passed its gate with {gang}")
