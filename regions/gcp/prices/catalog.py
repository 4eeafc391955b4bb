"""The billing catalog, page by page (imports Google's client).

The rule: a catalog is read whole or not at all. A page that does not come is asked for again, for a
catalog takes minutes and is read twice a day; an answer that goes in circles, never ends or sells
no accelerator is no catalog. Read ``read_book``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NamedTuple

from google.cloud import billing_v1
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

from regions.gcp.calls import ask
from regions.gcp.errors import BrokenError, GoogleError, SilentError
from regions.gcp.prices.book import Book
from regions.gcp.prices.naming import GPU, Part, classify
from regions.gcp.prices.reading import read, unpriced
from regions.gcp.prices.sku import Sku
from regions.gcp.prices.summing import book_of

COMPUTE_ENGINE = "services/6F81-5844-456A"
PAGE_SIZE = 2000  # of the 5000 that are allowed: what is read at once keeps the loop busy
PAGE_WITHIN_S = 60.0
CATALOG_WITHIN_S = 900.0
MAX_PAGES = 500
MAX_DOUBTS = 1000
ATTEMPTS = 5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


class Catalog(NamedTuple):
    """Entries that a machine's price is made of, and sentences about those that are doubtful."""

    skus: tuple[Sku, ...]
    doubts: tuple[str, ...]


async def read_book(
    client: billing_v1.CloudCatalogAsyncClient,
    pause: Callable[[float], Awaitable[None]],
    now_s: float,
) -> Book:
    """Read the catalog and make a book of it, as of a Unix time. Raises GoogleError."""
    catalog = await read_catalog(client, pause)
    book = book_of(catalog.skus, now_s)
    return replace(book, doubts=(*catalog.doubts, *book.doubts))


async def read_catalog(
    client: billing_v1.CloudCatalogAsyncClient, pause: Callable[[float], Awaitable[None]]
) -> Catalog:
    """Read all of Compute Engine's catalog. Raises GoogleError."""
    try:
        async with asyncio.timeout(CATALOG_WITHIN_S):
            return await _pages(client, pause)
    except TimeoutError as error:
        raise SilentError(f"the catalog did not come within {CATALOG_WITHIN_S:g} s") from error


async def _pages(
    client: billing_v1.CloudCatalogAsyncClient, pause: Callable[[float], Awaitable[None]]
) -> Catalog:
    skus: dict[str, Sku] = {}
    doubts: set[str] = set()
    token, seen = "", {""}
    for _ in range(MAX_PAGES):
        entries, token = await _page(client, token, pause)
        for entry in entries:
            _keep(entry, skus, doubts)
        if not token:
            return _whole(skus, doubts)
        if token in seen:
            raise BrokenError("the catalog's pages go in a circle")
        seen.add(token)
    raise BrokenError(f"the catalog has more than {MAX_PAGES} pages")


async def _page(
    client: billing_v1.CloudCatalogAsyncClient,
    token: str,
    pause: Callable[[float], Awaitable[None]],
) -> tuple[Any, str]:
    request = {"parent": COMPUTE_ENGINE, "page_size": PAGE_SIZE, "page_token": token}
    async for attempt in AsyncRetrying(
        sleep=pause,
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(_FIRST_PAUSE_S, _LONGEST_PAUSE_S),
        retry=retry_if_exception(lambda error: getattr(error, "is_transient", False)),
        reraise=True,
    ):
        with attempt:
            answer = client.list_skus(request, retry=None, timeout=PAGE_WITHIN_S)
            # The pager would go on by itself, for ever if need be; it is asked for its first alone.
            first = await anext(aiter((await ask(answer, PAGE_WITHIN_S)).pages))
            page = billing_v1.ListSkusResponse.pb(first)
            return page.skus, page.next_page_token
    raise GoogleError("no attempt was made")


def _keep(entry: Any, skus: dict[str, Sku], doubts: set[str]) -> None:
    """Keep what is ours of one entry; what is not is passed over before its price is looked at."""
    part = classify(entry.description, entry.category.usage_type)
    if part is None:
        return
    found = read(entry) if isinstance(part, Part) else part
    if isinstance(found, Sku):
        skus[found.sku_id] = found
        return
    if len(doubts) < MAX_DOUBTS:
        doubts.add(found)
    if isinstance(part, Part) and (place := unpriced(entry)) is not None:
        skus[place.sku_id] = place


def _whole(skus: dict[str, Sku], doubts: set[str]) -> Catalog:
    priced = (each for each in skus.values() if each.tiers)
    parts = (classify(each.description, each.usage_type) for each in priced)
    if not any(isinstance(part, Part) and part.kind == GPU for part in parts):
        raise BrokenError("the catalog sells no accelerator")
    return Catalog(skus=tuple(skus.values()), doubts=tuple(sorted(doubts)))
