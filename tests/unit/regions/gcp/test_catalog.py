"""The billing catalog over the wire: read whole or not at all."""

from __future__ import annotations

from decimal import Decimal

import grpc
import pytest
from google.cloud import billing_v1

from regions.gcp.errors import AccessError, BrokenError, BusyError, GoogleError, RefusedError
from regions.gcp.prices.catalog import ATTEMPTS, COMPUTE_ENGINE, read_book, read_catalog
from tests.fakes.google import FakeGoogle, google
from tests.unit.regions.gcp.making import H100, NOW_S, flex_machine, make_entry

BUSY = grpc.StatusCode.UNAVAILABLE


class Pauses:
    """Time that passes when it is asked to, at once."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


def page(*entries: billing_v1.Sku, then: str = "") -> billing_v1.ListSkusResponse:
    return billing_v1.ListSkusResponse(skus=list(entries), next_page_token=then)


async def test_all_pages_are_read_and_an_empty_one_is_no_end() -> None:
    async with google() as fake:
        l4 = make_entry("Nvidia L4 GPU running in Americas", price="0.56")
        other = make_entry("N2 Instance Core running in Americas")
        odd = make_entry(H100, usage="Commit1Yr", sku_id="odd")
        fake.pages = {
            "": [page(make_entry(), other, then="a")],
            "a": [page(then="b")],
            "b": [page(l4, odd)],
        }
        found = await read_catalog(fake.catalog, Pauses())
    assert [each.description for each in found.skus] == [H100, l4.description]
    assert found.doubts == (f"{H100!r} has the usage type 'Commit1Yr'",)
    assert [each.page_token for each in fake.asked] == ["", "a", "b"]
    assert {each.parent for each in fake.asked} == {COMPUTE_ENGINE}


async def test_a_book_is_made_of_it() -> None:
    async with google() as fake:
        odd = make_entry(H100, usage="Commit1Yr", sku_id="odd")
        fake.pages = {
            "": [page(*flex_machine()[:2], then="a")],
            "a": [page(*flex_machine()[2:], odd)],
        }
        book = await read_book(fake.catalog, Pauses(), NOW_S)
    (price,) = (each for each in book.prices if each.machine == "a3-highgpu-8g")
    assert (price.capacity_type, price.region) == ("FLEX", "us-central1")
    assert round(price.per_hour, 2) == Decimal("38.32")
    assert price.as_of_s == NOW_S
    assert book.doubts == (f"{H100!r} has the usage type 'Commit1Yr'",)


async def test_no_wider_price_holds_where_one_of_its_own_cannot_be_read() -> None:
    both = ["us-central1", "us-east4"]
    *parts, disk = flex_machine(regions=both)
    odd = make_entry(
        disk.description, unit="GiBy.mo", regions=["us-central1"], currency="EUR", sku_id="odd"
    )
    async with google() as fake:
        fake.pages = {"": [page(*parts, disk, odd)]}
        book = await read_book(fake.catalog, Pauses(), NOW_S)
    assert {each.region for each in book.prices} == {"us-east4"}
    assert f"{disk.description!r}: it is in 'EUR', not in US dollars" in book.doubts
    machine = "FLEX a3-highgpu-8g in us-central1"
    assert f"{machine}: no rate of its local disk disk" in book.doubts
    assert not [said for said in book.doubts if "sold by" in said or "costs nothing" in said]


@pytest.mark.parametrize("status", [BUSY, grpc.StatusCode.RESOURCE_EXHAUSTED])
async def test_a_page_that_does_not_come_is_asked_for_again(status: grpc.StatusCode) -> None:
    pauses = Pauses()
    async with google() as fake:
        fake.pages = {"": [page(make_entry(), then="a")], "a": [status, status, page()]}
        found = await read_catalog(fake.catalog, pauses)
    assert len(found.skus) == 1
    assert [each.page_token for each in fake.asked] == ["", "a", "a", "a"]
    assert pauses.taken == [1.0, 2.0]


async def test_half_a_catalog_is_none() -> None:
    async with google() as fake:
        fake.pages = {"": [page(make_entry(), then="a")], "a": [BUSY]}
        with pytest.raises(BusyError):
            await read_catalog(fake.catalog, Pauses())
    assert len(fake.asked) == 1 + ATTEMPTS


@pytest.mark.parametrize("circle", [("a", "a"), ("a", "b", "a")])
async def test_pages_that_go_in_a_circle_are_no_catalog(circle: tuple[str, ...]) -> None:
    async with google() as fake:
        steps = zip(("", *circle), circle, strict=False)
        fake.pages = {here: [page(make_entry(), then=there)] for here, there in steps}
        with pytest.raises(BrokenError, match="circle"):
            await read_catalog(fake.catalog, Pauses())


async def test_a_catalog_without_accelerators_is_none() -> None:
    async with google() as fake:
        fake.pages = {"": [page(make_entry("N2 Instance Core running in Americas"))]}
        with pytest.raises(BrokenError, match="sells no accelerator"):
            await read_catalog(fake.catalog, Pauses())


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, AccessError),
        (grpc.StatusCode.UNAUTHENTICATED, AccessError),
        (grpc.StatusCode.NOT_FOUND, RefusedError),
    ],
)
async def test_a_refusal_is_not_asked_again(
    status: grpc.StatusCode, error: type[GoogleError]
) -> None:
    pauses = Pauses()
    async with google() as fake:
        await _refused(fake, status, error, pauses)
    assert (len(fake.asked), pauses.taken) == (1, [])


async def _refused(
    fake: FakeGoogle, status: grpc.StatusCode, error: type[GoogleError], pauses: Pauses
) -> None:
    fake.pages = {"": [status]}
    with pytest.raises(error, match=status.name):
        await read_catalog(fake.catalog, pauses)
