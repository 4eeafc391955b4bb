"""Which prices are in force, on disk and in memory, and what ops' contract makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from regions.gcp.errors import BusyError
from regions.gcp.prices.book import DAY_S, Ask, Book, Price, Quote
from regions.gcp.prices.filing import MAX_FILE_BYTES, PriceFile, UnusableFileError
from regions.gcp.prices.keeping import REFRESH_S, RETRY_S, PriceKeeper
from regions.gcp.prices.shipped import shipped
from regions.gcp.prices.terms import Terms
from tests.unit.regions.gcp.making import NOW_S

ASK = Ask(region="us-central1", capacity_type="SPOT", accelerator="H100")


def make_price(machine: str = "a3-highgpu-8g", per_hour: str = "16", **rest: Any) -> Price:
    price = Price(
        machine=machine,
        accelerator="H100",
        accelerators=8,
        region="us-central1",
        capacity_type="SPOT",
        per_hour=Decimal(per_hour),
        as_of_s=NOW_S,
        source="the billing catalog",
    )
    return replace(price, **rest)


BOOK = Book(prices=(make_price(),), doubts=("one is odd",))


class Cloud:
    """A catalog that says what a test sets."""

    def __init__(self, said: Book | Exception) -> None:
        self.said = said
        self.asked_s: list[float] = []

    async def __call__(self, now_s: float) -> Book:
        self.asked_s.append(now_s)
        if isinstance(self.said, Exception):
            raise self.said
        return Book(
            prices=tuple(replace(each, as_of_s=now_s) for each in self.said.prices),
            doubts=self.said.doubts,
        )


def keeper(folder: Path, cloud: Cloud) -> PriceKeeper:
    file = PriceFile(folder / "prices.json")
    return PriceKeeper(file=file, base=shipped(), terms=Terms(), fetch=cloud)


def test_a_book_on_disk_is_what_it_was(tmp_path: Path) -> None:
    file = PriceFile(tmp_path / "new" / "prices.json")
    assert file.load(NOW_S) is None
    file.save(shipped())
    file.save(BOOK)
    assert file.load(NOW_S) == BOOK
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["prices.json"]


def changed(field: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["prices"][0].__setitem__(field, value)


@pytest.mark.parametrize(
    "harm",
    [
        changed("per_hour", "NaN"),
        changed("per_hour", "Infinity"),
        changed("per_hour", "-1"),
        changed("per_hour", "0"),
        changed("per_hour", "8001"),
        changed("accelerators", 0),
        changed("as_of_s", NOW_S + 2 * DAY_S),
        changed("region", "../../etc"),
        changed("more", 1),
        lambda content: content.update(schema_version=2),
        lambda content: content.pop("prices"),
        lambda content: content.update(prices={}),
    ],
)
def test_a_file_that_is_no_book_is_refused_whole(
    tmp_path: Path, harm: Callable[[dict[str, Any]], None]
) -> None:
    path = tmp_path / "prices.json"
    PriceFile(path).save(BOOK)
    content = json.loads(path.read_text())
    harm(content)
    path.write_text(json.dumps(content))
    with pytest.raises(UnusableFileError, match="is no book of prices"):
        PriceFile(path).load(NOW_S)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 5000])
def test_bytes_that_are_no_json_are_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "prices.json"
    path.write_bytes(raw)
    with pytest.raises(UnusableFileError):
        PriceFile(path).load(NOW_S)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(UnusableFileError, match="larger than 16 MiB"):
        PriceFile(path).load(NOW_S)


async def test_a_catalog_that_was_read_takes_the_place_of_the_shipped_list(tmp_path: Path) -> None:
    cloud = Cloud(BOOK)
    prices = keeper(tmp_path, cloud)
    await prices.load(NOW_S)
    assert prices.quote(ASK, NOW_S).source.startswith("list price, spot")
    assert await prices.refresh(NOW_S)
    assert not await prices.refresh(NOW_S + REFRESH_S - 1)
    assert prices.quote(ASK, NOW_S + 60) == Quote(
        per_gpu_hour=Decimal(2),
        why="a3-highgpu-8g in us-central1",
        source="the billing catalog",
        age_s=60.0,
    )
    # What is doubtful in it is nobody's trouble while everybody has a price.
    assert not prices.troubles
    # What the catalog does not tell has no price: an older list does not overrule it.
    assert prices.quote(replace(ASK, region="us-east4"), NOW_S).per_gpu_hour is None
    assert prices.troubles == ("one is odd",)
    assert cloud.asked_s == [NOW_S]


async def test_prices_outlive_the_daemon_and_are_not_asked_for_again_before_their_time(
    tmp_path: Path,
) -> None:
    await keeper(tmp_path, Cloud(BOOK)).refresh(NOW_S)
    cloud = Cloud(BusyError("503"))
    prices = keeper(tmp_path, cloud)
    await prices.load(NOW_S + 60)
    assert prices.quote(ASK, NOW_S + 60).per_gpu_hour == 2
    assert not await prices.refresh(NOW_S + 60)
    assert cloud.asked_s == []


async def test_a_catalog_that_cannot_be_read_leaves_prices_that_grow_old(tmp_path: Path) -> None:
    cloud = Cloud(BOOK)
    prices = keeper(tmp_path, cloud)
    await prices.refresh(NOW_S)
    cloud.said = BusyError("no room (503)")
    later_s = NOW_S + 8 * DAY_S
    assert not await prices.refresh(later_s)
    assert not await prices.refresh(later_s + RETRY_S - 1)
    assert not await prices.refresh(later_s + RETRY_S)
    assert cloud.asked_s == [NOW_S, later_s, later_s + RETRY_S]
    assert prices.troubles == (
        "prices could not be read: no room (503); those in force are 8 days old",
    )
    quote = prices.quote(ASK, later_s)
    assert (quote.per_gpu_hour, quote.age_s) == (Decimal(2), 8 * DAY_S)


async def test_half_a_listing_replaces_nothing(tmp_path: Path) -> None:
    many = tuple(make_price(region=f"region-{each}") for each in range(9))
    cloud = Cloud(Book(prices=(make_price(), *many)))
    prices = keeper(tmp_path, cloud)
    await prices.refresh(NOW_S)
    cloud.said = Book(prices=many[:4])
    assert not await prices.refresh(NOW_S + REFRESH_S)
    assert prices.quote(ASK, NOW_S).per_gpu_hour == 2
    assert prices.troubles == ("prices could not be read: the catalog has 4 prices and had 10",)
    # A week on it is believed: the world has changed, and a price that is gone is gone.
    assert await prices.refresh(NOW_S + 8 * DAY_S)
    gone = ("the price of SPOT H100 in us-central1 is not in the catalog any more",)
    assert prices.troubles == gone
    assert prices.quote(ASK, NOW_S).per_gpu_hour is None
    assert prices.troubles == gone


async def test_an_empty_book_is_never_in_force(tmp_path: Path) -> None:
    prices = keeper(tmp_path, Cloud(Book(prices=())))
    assert not await prices.refresh(NOW_S)
    assert prices.quote(ASK, NOW_S).per_gpu_hour is not None
    assert "makes no price of a whole machine" in prices.troubles[0]


async def test_an_unusable_file_is_said_and_read_anew(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text("not ours")
    prices = keeper(tmp_path, Cloud(BOOK))
    await prices.load(NOW_S)
    assert "is no book of prices" in prices.troubles[0]
    assert await prices.refresh(NOW_S)
    assert PriceFile(tmp_path / "prices.json").load(NOW_S) is not None


async def test_a_disk_that_takes_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    prices = keeper(tmp_path / "file", Cloud(BOOK))
    assert await prices.refresh(NOW_S)
    assert prices.quote(ASK, NOW_S).per_gpu_hour == 2
    assert "prices are not kept for a restart" in prices.troubles[-1]


TERMS = msgspec.convert(
    {
        "factors": [
            {"factor": "0.9"},
            {"factor": "0.8", "capacity_type": "SPOT"},
            {"factor": "0.5", "capacity_type": "SPOT", "region": "us-east4"},
            {"factor": "0.7", "capacity_type": "RESERVED"},
        ],
        "sunk": [{"accelerator": "H100", "region": "us-east4"}],
    },
    Terms,
)


@pytest.mark.parametrize(
    ("capacity_type", "region", "price", "why"),
    [
        ("SPOT", "us-central1", "1.6", "times 0.8 by contract"),
        ("SPOT", "us-east4", "1", "times 0.5 by contract"),
        ("ON_DEMAND", "us-central1", "9", "times 0.9 by contract"),
        ("RESERVED", "us-east4", "0", "a reservation that is paid already"),
        ("RESERVED", "us-central1", "7", "times 0.7 by contract"),
    ],
)
def test_the_contract_lies_over_list_prices(
    capacity_type: str, region: str, price: str, why: str
) -> None:
    book = Book(
        prices=tuple(
            make_price(capacity_type=kind, region=where, per_hour=amount)
            for where in ("us-central1", "us-east4")
            for kind, amount in (("SPOT", "16"), ("ON_DEMAND", "80"))
        )
    )
    asked = Ask(region=region, capacity_type=capacity_type, accelerator="H100", per_node=8)
    quote = TERMS.quote(book, asked, NOW_S)
    assert quote.per_gpu_hour == Decimal(price)
    assert quote.why.endswith(why)


def test_a_contract_makes_no_price_where_there_is_none() -> None:
    asked = Ask(region="us-central1", capacity_type="RESERVED", accelerator="H100")
    assert TERMS.quote(Book(prices=()), asked, NOW_S).per_gpu_hour is None


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({"factors": [{"factor": "0"}]}, r"factors\[0\].factor is 0"),
        ({"factors": [{"factor": "NaN"}]}, r"factors\[0\].factor is NaN"),
        ({"factors": [{"factor": "11"}]}, "not in"),
        ({"factors": [{"factor": "1", "zone": "a"}]}, "zone"),
        ({"sunk": [{}]}, "accelerator"),
        (
            {"factors": [{"factor": "1", "region": "a"}, {"factor": "2", "accelerator": "L4"}]},
            "an earlier one fit the same prices",
        ),
    ],
)
def test_terms_that_cannot_hold_are_refused_by_name(raw: object, why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert(raw, Terms)
