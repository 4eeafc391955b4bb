"""What is remembered of questions to registries is bounded, though nobody collects an answer."""

import pytest

from broker.history.lineage import resumable
from broker.loops import image_vouching
from broker.loops.image_vouching import ImageVoucher
from broker.loops.images import Images
from broker.loops.journeys import Journeys
from broker.model.image import PinnedImage
from broker.placement.view import View
from broker.runtime.clock import SystemClock
from tests.builders import flat_egress
from tests.fakes.images import DIGEST, SOURCE, FakeRegistries, make_book
from tests.fakes.readings import HandReadings


async def test_the_oldest_question_of_many_that_nobody_came_back_to_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(image_vouching, "KEPT", 3)
    wanted = [PinnedImage(name=f"{SOURCE}/llm{at}@{DIGEST}", size_bytes=1) for at in range(5)]
    async with Journeys(max_parallel=1) as trips:
        images = Images(make_book("alpha"), FakeRegistries(), asks=trips, copies=trips)
        voucher = ImageVoucher(
            images, View(resumable, flat_egress), SystemClock(None, HandReadings())
        )
        assert [voucher.is_there(one, "alpha", within_s=5.0) for one in wanted] == [None] * 5
        asking = [voucher.is_asking(one, "alpha") for one in wanted]
    assert asking == [False, False, True, True, True]
