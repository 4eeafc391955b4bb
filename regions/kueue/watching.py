"""The informer: one kind of one cluster, listed in pages, then watched. One class for every kind.

The rule: what was heard stays until something else is heard, and it is said since when; unknown is
never empty. A list is taken in whole or not at all. What cannot be followed (410, a line that is
none, an event without a name) is listed anew; silence opens the watch again where it stood. Read
``Informer.run`` first.

JSON is taken apart only as far as it is used: an object's name and version first, and the whole of
it only when that is a new one. So listing anew what did not change costs next to nothing, and
nothing is in memory twice.
"""

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from regions.kueue.cache import Cache, Health
from regions.kueue.clock import Clock
from regions.kueue.errors import (
    BrokenError,
    ClusterError,
    ExpiredError,
    ForbiddenError,
    MissingError,
    RefusedError,
    refusal,
)
from regions.kueue.objects.kinds import Kind, Unreadable, decode
from regions.kueue.objects.meta import Meta

T = TypeVar("T")

MOST_OBJECTS = 200_000
"""Of one kind: beyond it a cluster is watched by something else than this."""
REFUSALS = 3
"""A watch that was refused so many times in a row is not tried again from where it stood."""
MOST_PAGES = 1_000
"""Of one list: whoever says each time that there is more never comes to an end."""
AT_A_TIME = 25
"""Objects that are decoded in a row before others get the loop: some 10 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How an informer goes about it; durations in seconds.

    ``watch_s``: a server is asked to end a watch after this to half as long again, so that not all
    end at once. It has to be within the silence that an ``Api`` bears, for bookmarks are no sign of
    life to rely on: of a kind of which a server heard nothing since its start it sends none for ten
    minutes, and under load a minute becomes two. ``denied_s``: how long at most until
    what was denied, or is not there, is asked for again; the first times come sooner, for a server
    that starts denies what it grants a moment later.
    ``resync_s``: how old a list may be: an event that a server never sent is made up for by then,
    and a right that was missing is asked for again.
    """

    page_items: int = 500
    watch_s: int = 60
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0
    denied_s: float = 300.0
    resync_s: float = 3600.0


class Source(Protocol):
    """Where the objects of a kind come from. Both raise ClusterError."""

    async def page(self, scope: str, token: str, limit: int) -> bytes:
        """Return a page of a list. ``scope`` is a namespace, or empty for all; limit 0 is none."""
        ...

    def watch(self, scope: str, version: str, seconds: int) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch from a resource version on, for at most so long."""
        ...


class Informer(Generic[T]):
    """One kind, kept in step with the cluster.

    ``scopes`` are tried in their order: a right that is missing for all namespaces may be there for
    one. ``keeps`` None: all objects are kept.
    """

    def __init__(
        self,
        kind: Kind[T],
        version: str,
        source: Source,
        *,
        clock: Clock,
        chance: random.Random,
        scopes: tuple[str, ...] = ("",),
        keeps: Callable[[T], bool] | None = None,
        tells: Callable[[], None] | None = None,
        bounds: Bounds = Bounds(),
    ) -> None:
        self.kind = kind
        self.cache: Cache[T] = Cache()
        self.health = Health(scope=scopes[0])
        self.version = version
        self._source = source
        self._clock = clock
        self._chance = chance
        self._scopes = scopes
        self._keeps = keeps
        self._tells = tells
        self._bounds = bounds
        self._scope = scopes[0]
        self._position = ""  # the resource version that the watch goes on from; empty: list first
        self._is_paged = True
        self._failures = 0
        self._listed_s: float | None = None  # None: nothing was, or a new list is due

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        while True:
            pause_s = await self._follow_once()
            if pause_s:
                await self._clock.pause(pause_s)

    def _is_old(self) -> bool:
        listed_s = self._listed_s
        return listed_s is not None and (
            self._clock.monotonic_s() - listed_s > self._bounds.resync_s
        )

    async def _follow_once(self) -> float:
        """List if need be and watch to the watch's end; return how long to wait before the next."""
        self._failures += 1  # until a watch tells something
        if self._is_old():
            self._position, self._scope, self._listed_s = "", self._scopes[0], None
        try:
            if not self._position:
                await self._list()
            await self._watch()
        except ForbiddenError as error:
            return self._denied(error, f"we may not see {self.kind.name}")
        except MissingError as error:
            return self._denied(error, f"{self.kind.name} is not served in {self.version}")
        except (ExpiredError, BrokenError) as error:
            self._position = ""
            return self._failed(error)
        except RefusedError as error:
            # After a restore of etcd a position can be one that has not come yet, and never may.
            if self._failures >= REFUSALS:
                self._position = ""
            return self._failed(error)
        except ClusterError as error:
            return self._failed(error)
        # A server that shuts down ends its watches at once, and would be asked again at once.
        return self._backoff(self._bounds.longest_pause_s) if self._failures else 0.0

    # ---- listing ----

    async def _list(self) -> None:
        found: dict[str, T | Unreadable] = {}
        token, limit = "", self._bounds.page_items if self._is_paged else 0
        for _ in range(MOST_PAGES):
            try:
                body = await self._source.page(self._scope, token, limit)
            except ExpiredError:
                # The pages outlived the server's memory: all in one is slower, and cannot.
                self._is_paged = not token
                raise
            page = _decoded(body, _Page)
            await self._read(page.items or [], found)
            token = page.metadata.continue_ or ""
            if not token:
                break
        else:
            raise BrokenError(f"a list of more than {MOST_PAGES} pages")
        if not page.metadata.resource_version:
            raise BrokenError("a list without a resource version")
        self._is_paged = True
        before = self.cache.generation
        self.cache.replace(found)
        self._position = page.metadata.resource_version
        self._listed_s = self._clock.monotonic_s()
        self._heard()
        self._tell(before)

    async def _read(self, items: list[msgspec.Raw], found: dict[str, T | Unreadable]) -> None:
        for at, raw in enumerate(items):
            if at % AT_A_TIME == AT_A_TIME - 1:
                await self._clock.pause(0.0)
            peek = _peek(raw)
            key = peek.key if peek is not None else f"#{len(found)}"
            each = self._object(raw, peek)
            if each is not None:
                found[key] = each
            if len(found) > MOST_OBJECTS:
                raise BrokenError(f"there are more than {MOST_OBJECTS} {self.kind.name}")

    # ---- watching ----

    async def _watch(self) -> None:
        opened_s = self._clock.monotonic_s()
        seconds = round(self._bounds.watch_s * (1 + self._chance.random() / 2))
        lines = self._source.watch(self._scope, self._position, seconds)
        async with aclosing(lines):
            async for line in lines:
                before = self.cache.generation
                self._take_in(line)
                self._failures = 0
                self._heard()
                self._tell(before)
                if self._clock.monotonic_s() - opened_s > 2 * seconds:
                    break  # it was asked to end, and a list would never grow old by it
        if self._clock.monotonic_s() - opened_s >= seconds - 2:
            self._failures = 0
            self._heard()  # ended as it was asked to: nothing else happened until now

    def _take_in(self, line: bytes) -> None:
        event = _decoded(line, _Event)
        if event.type == "ERROR":
            told = _decoded(event.object, _Status)
            raise refusal(told.code or 500, told.reason or "", told.message or "")
        peek = _peek(event.object)
        if event.type == "BOOKMARK":
            version = _decoded(event.object, _Bookmark).metadata.resource_version
            if not version:
                raise BrokenError("a bookmark without a resource version")
            self._position = version
            return
        if peek is None or event.type not in ("ADDED", "MODIFIED", "DELETED"):
            raise BrokenError(f"an event {event.type[:20]!r} of nobody")
        each = None if event.type == "DELETED" else self._object(event.object, peek)
        if each is None:
            self.cache.drop(peek.key)
        else:
            self.cache.put(peek.key, each)
        self._position = peek.version

    def _object(self, raw: msgspec.Raw, peek: "_Peek | None") -> T | Unreadable | None:
        """Return an object, as we have it already when it is the same; None: it is not kept."""
        if peek is not None:
            known = self.cache.get(peek.key)
            meta: Meta | None = getattr(known, "meta", None)
            if meta is not None and (meta.uid, meta.resource_version) == (peek.uid, peek.version):
                return known
        try:
            each = decode(self.kind, self.version, _decoded(raw, object))
        except BrokenError as error:
            key, uid = (peek.key, peek.uid) if peek is not None else ("", "")
            each = Unreadable(key=key, uid=uid, reason=f"{self.kind.name} {key}: {error}")
        if isinstance(each, Unreadable) or self._keeps is None or self._keeps(each):
            return each
        return None

    # ---- how it stands ----

    def _heard(self) -> None:
        now_s = self._clock.monotonic_s()
        self.health = Health(heard_s=now_s, scope=self._scope)

    def _tell(self, before: int) -> None:
        if self._tells is not None and self.cache.generation != before:
            self._tells()

    def _denied(self, error: RefusedError, what: str) -> float:
        """Go on with a narrower scope, or wait for the right to come."""
        at = self._scopes.index(self._scope)
        self._position = ""
        is_last = at + 1 == len(self._scopes)
        self._scope = scope = self._scopes[0 if is_last else at + 1]
        self.health = Health(
            heard_s=self.health.heard_s,
            trouble=f"{what}: {error.message}" if is_last else "",
            scope=scope,
            is_denied=is_last,
        )
        return self._backoff(self._bounds.denied_s) if is_last else 0.0

    def _failed(self, error: ClusterError) -> float:
        self.health = Health(
            heard_s=self.health.heard_s,
            trouble=f"{self.kind.name}: {error}",
            scope=self.health.scope,
        )
        after_s = error.retry_after_s if isinstance(error, RefusedError) else None
        longest_s = self._bounds.longest_pause_s
        return max(min(after_s or 0.0, longest_s), self._backoff(longest_s))

    def _backoff(self, longest_s: float) -> float:
        """Return how long to wait before the next attempt, the longer the more in a row failed."""
        pause_s = self._bounds.first_pause_s * 2.0 ** min(max(0, self._failures - 1), 20)
        return min(pause_s, longest_s) * self._jitter()

    def _jitter(self) -> float:
        return 0.5 + self._chance.random()


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Peek(msgspec.Struct, frozen=True):
    """An object's name and version, and nothing else of it."""

    metadata: _Meta

    @property
    def key(self) -> str:
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def version(self) -> str:
        return self.metadata.resource_version


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class _Page(msgspec.Struct, frozen=True):
    """A page of a list. What has no ``items`` at all is another answer, and no empty list."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct, frozen=True):
    metadata: _ListMeta


class _Status(msgspec.Struct, frozen=True):
    code: int | None = None
    reason: str | None = None
    message: str | None = None


_Form = TypeVar("_Form")


def _decoded(raw: bytes | msgspec.Raw, form: type[_Form]) -> _Form:
    try:
        return msgspec.json.decode(raw, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenError(f"the server says what it cannot mean: {error}") from error


def _peek(raw: msgspec.Raw) -> _Peek | None:
    """Return who an object is, None when it does not say."""
    try:
        found = msgspec.json.decode(raw, type=_Peek)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    meta = found.metadata
    return found if meta.name and meta.uid and meta.resource_version else None
