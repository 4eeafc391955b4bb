"""The informer, over a script of pages and lines: what it keeps, when it lists anew and waits."""

from collections.abc import AsyncGenerator

import pytest

from regions.kueue.errors import BrokenError, ExpiredError, SilentError, refusal
from regions.kueue.objects.kinds import Unreadable
from regions.kueue.watching import MOST_PAGES
from tests.unit.regions.kueue.scripts import (
    Lines,
    Page,
    Play,
    Script,
    bookmark,
    gone,
    line,
    page,
    play,
    thing,
)


async def test_a_list_comes_in_pages_and_the_watch_goes_on_from_it() -> None:
    seen = await play(
        [page(thing("a"), token="next"), page(thing("b", 2), version="10")],
        [[line("ADDED", thing("c", 3, "11")), line("DELETED", thing("a", 1, "12"))]],
    )
    assert seen.script.asked == [
        ("list", "", "", "500"),
        ("list", "", "next", "500"),
        ("watch", "", "10"),
        ("watch", "", "12"),
    ]
    assert seen.values == {"b": 2, "c": 3}
    assert seen.told == 3
    assert seen.waits == []


async def test_a_bookmark_moves_the_position_and_changes_nothing() -> None:
    seen = await play([page(thing("a"))], [[bookmark("99")]])
    assert seen.script.asked[-1] == ("watch", "", "99")
    assert (seen.values, seen.told) == ({"a": 1}, 1)


async def test_silence_opens_the_watch_again_where_it_stood() -> None:
    seen = await play(
        [page(thing("a"))], [[line("MODIFIED", thing("a", 2, "11")), SilentError("silent")], []]
    )
    assert seen.script.asked == [
        ("list", "", "", "500"),
        ("watch", "", "10"),
        ("watch", "", "11"),
        ("watch", "", "11"),
    ]
    assert seen.values == {"a": 2}


@pytest.mark.parametrize(
    "what",
    [
        [gone()],
        [line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})],
        [b"{"],
        [b"[]"],
        [b"\xff"],
        [line("ADDED", {})],
        [line("ADDED", {"metadata": {"name": 1, "uid": "u"}})],
        [line("BOOKMARK", {"metadata": {}})],
        [line("SHOUTED", thing("a"))],
        [BrokenError("within a line")],
    ],
)
async def test_what_cannot_be_followed_is_listed_anew(what: Lines) -> None:
    seen = await play(
        [page(thing("a"), thing("b")), page(thing("b", 2, "5"), version="20")], [what]
    )
    assert [each[0] for each in seen.script.asked] == ["list", "watch", "list", "watch"]
    assert seen.values == {"b": 2}
    assert len(seen.waits) == 1


async def test_a_position_that_is_refused_again_and_again_is_given_up() -> None:
    """So it is after a restore of etcd: the server waits for a version that never comes."""
    ahead = line("ERROR", {"kind": "Status", "code": 504, "message": "Too large resource version"})
    seen = await play(
        [page(thing("a"), version="9000"), page(thing("b"), version="7")],
        [[bookmark("9001"), ahead], [ahead], [ahead], [ahead], [bookmark("8")]],
    )
    asked = [each for each in seen.script.asked if each[0] == "watch" or len(each) == 4]
    assert [each[2] if each[0] == "watch" else "list" for each in asked] == [
        "list", "9000", "9001", "9001", "9001", "list", "7", "8",
    ]  # fmt: skip
    assert seen.values == {"b": 1}


async def test_silence_alone_gives_up_no_position() -> None:
    quiet: list[Lines] = [[SilentError("silent")] for _ in range(6)]
    seen = await play([page(thing("a"))], quiet)
    assert [each[0] for each in seen.script.asked] == ["list", *["watch"] * 7]


async def test_a_list_does_not_grow_old_however_well_the_watch_goes() -> None:
    first = Play([page(thing("a"))], [[bookmark("11")]])
    await first.to_its_end()
    first.clock.now_s += 3601
    first.script.pages = [page(thing("a"), thing("missed"))]
    first.script.is_over.clear()
    await first.to_its_end()
    assert first.values == {"a": 1, "missed": 1}


async def test_what_was_seen_stays_until_the_new_list_is_whole() -> None:
    part = Play(
        [page(thing("a")), page(thing("b"), token="next")],
        [[line("ADDED", thing("c", 3, "11")), gone()]],
    )
    await part.to_its_end()
    assert part.values == {"a": 1, "c": 3}
    assert part.informer.health.heard_s == 1000.0
    assert "too old" in part.informer.health.trouble


async def test_pages_that_outlive_the_servers_memory_are_asked_for_at_once() -> None:
    seen = await play([page(thing("a"), token="next"), gone(), page(thing("b", 2))], [])
    limits = [each[3] for each in seen.script.asked if each[0] == "list"]
    assert limits == ["500", "500", "0"]
    assert seen.values == {"b": 2}


async def test_a_list_anew_keeps_the_very_objects_that_did_not_change() -> None:
    first = Play([page(thing("a"), thing("b"))], [])
    await first.to_its_end()
    before = first.informer.cache.objects["a"]
    generation = first.informer.cache.generation
    first.script.pages = [page(thing("a"), thing("b", 2, "5"))]
    first.script.watches = [[gone()]]
    first.script.is_over.clear()
    await first.to_its_end()
    assert first.informer.cache.objects["a"] is before
    assert first.values == {"a": 1, "b": 2}
    assert first.informer.cache.generation == generation + 1


async def test_one_that_was_made_again_under_its_name_is_another() -> None:
    seen = await play([page(thing("a"))], [[line("MODIFIED", thing("a", 5, "1", uid="another"))]])
    assert seen.values == {"a": 5}


async def test_one_that_cannot_be_read_does_not_end_the_watch() -> None:
    bad = thing("bad", "much", "11")
    seen = await play(
        [page(thing("a"), thing("old", []))], [[line("ADDED", bad), line("ADDED", thing("c"))]]
    )
    assert seen.values == {"a": 1, "c": 1}
    assert {key: type(each) for key, each in seen.informer.cache.unreadable.items()} == {
        "bad": Unreadable,
        "old": Unreadable,
    }


async def test_what_is_not_wanted_is_not_kept() -> None:
    seen = await play(
        [page(thing("a"), thing("b", 2))],
        [[line("MODIFIED", thing("a", 2, "11")), line("ADDED", thing("c", 1, "12"))]],
        keeps=lambda each: each.value == 1,
    )
    assert seen.values == {"c": 1}


async def test_an_answer_without_items_is_no_empty_list() -> None:
    other = b'{"kind": "Pod", "metadata": {"resourceVersion": "12"}}'
    seen = await play([page(thing("a")), other], [[gone()]])
    assert seen.values == {"a": 1}
    assert seen.informer.health.trouble


async def test_a_list_that_has_no_end_is_given_up() -> None:
    endless: list[Page] = [page(thing("b"), token="more") for _ in range(MOST_PAGES)]
    seen = await play([page(thing("a")), *endless, page(thing("c"))], [[gone()]])
    assert seen.values == {"c": 1}
    tokens = [each[2] for each in seen.script.asked if each[0] == "list"]
    assert tokens == ["", "", *["more"] * (MOST_PAGES - 1), ""]


async def test_a_watch_that_does_not_end_when_it_should_is_ended() -> None:
    lasting: Lines = [bookmark("11"), 200.0, bookmark("12"), bookmark("13")]
    seen = await play([page(thing("a"))], [lasting])
    assert seen.script.asked[-1] == ("watch", "", "12")


async def test_a_right_that_comes_later_widens_what_is_seen_again() -> None:
    denied = refusal(403, "Forbidden", "no")
    first = Play([denied, page(thing("a"))], [[bookmark("11")]], scopes=("", "ours"))
    await first.to_its_end()
    assert first.informer.health.scope == "ours"
    first.clock.now_s += 3601
    first.script.pages = [SilentError("away"), page(thing("a"), thing("b"))]
    first.script.is_over.clear()
    await first.to_its_end()
    assert [each[1] for each in first.script.asked if each[0] == "list"] == ["", "ours", "", ""]
    assert (first.informer.health.scope, first.values) == ("", {"a": 1, "b": 1})


@pytest.mark.parametrize("up_s", [0.0, 90_000.0])
async def test_a_right_for_one_namespace_is_enough_however_long_the_machine_is_up(
    up_s: float,
) -> None:
    denied = refusal(403, "Forbidden", "no")
    first = Play([denied, page(thing("a"))], [[bookmark("11")]], scopes=("", "ours"))
    first.clock.now_s += up_s
    await first.to_its_end()
    assert (first.informer.health.scope, first.values) == ("ours", {"a": 1})
    first.clock.now_s += 3601
    first.script.pages = [denied, page(thing("b"))]
    first.script.is_over.clear()
    await first.to_its_end()
    assert (first.informer.health.scope, first.values) == ("ours", {"b": 1})


async def test_a_list_that_never_comes_leaves_everything_unknown() -> None:
    seen = await play([SilentError("away"), page(version=""), b"<html>"], [])
    assert seen.informer.health.heard_s is None
    assert "prioritycl" in seen.informer.health.trouble


async def test_the_waits_grow_to_a_bound_and_begin_anew_when_something_is_heard() -> None:
    failing: list[Page] = [SilentError("away") for _ in range(12)]
    seen = await play([*failing, page(thing("a"))], [[bookmark("11"), SilentError("cut")]])
    *growing, last = seen.waits
    bases = [min(30.0, 0.5 * 2**at) for at in range(12)]
    assert all(0.5 <= wait / base <= 1.5 for wait, base in zip(growing, bases, strict=True))
    assert len({round(wait / base, 6) for wait, base in zip(growing, bases, strict=True)}) == 12
    assert last < 1.0


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_in_a_loop() -> None:
    seen = await play([page(thing("a"))], [[], [], []])
    assert len(seen.waits) == 3
    assert sorted(seen.waits) == seen.waits


async def test_a_quiet_watch_that_ends_at_its_time_is_a_sign_of_life() -> None:
    """Bookmarks are none to rely on."""
    seen = await play([page(thing("a"))], [[95.0], [95.0], [bookmark("11")], [30.0]])
    assert seen.waits == [seen.waits[0]]  # the last one ended before its time
    assert all(60 <= span <= 90 for span in seen.script.spans)
    health = seen.informer.health
    assert (health.heard_s, health.trouble) == (1190.0, "")


async def test_a_server_that_asks_for_time_gets_it() -> None:
    seen = await play([refusal(429, "Busy", "slow down", 20.0), page(thing("a"))], [])
    assert seen.waits == [20.0]
    assert seen.values == {"a": 1}


async def test_a_right_that_is_missing_for_all_may_be_there_for_one_namespace() -> None:
    seen = await play([refusal(403, "Forbidden", "no"), page(thing("a"))], [], scopes=("", "team"))
    assert seen.script.asked[:2] == [("list", "", "", "500"), ("list", "team", "", "500")]
    assert seen.values == {"a": 1}
    health = seen.informer.health
    assert (health.scope, health.trouble, health.is_denied) == ("team", "", False)


async def test_without_any_right_it_is_said_and_asked_for_again_ever_later() -> None:
    no = refusal(403, "Forbidden", "user u cannot list")
    seen = await play([no] * 14, [], scopes=("", "team"))
    health = seen.informer.health
    assert health.is_denied
    assert health.heard_s is None
    assert health.trouble == (
        "we may not see workloadpriorityclasses.kueue.x-k8s.io: user u cannot list"
    )
    bases = [1.0, 4.0, 16.0, 64.0, 256.0, 300.0, 300.0]
    assert all(0.5 <= wait / base <= 1.5 for wait, base in zip(seen.waits, bases, strict=True))


async def test_what_a_server_that_starts_denies_for_a_moment_is_seen_again_soon() -> None:
    no = refusal(403, "Forbidden", "user u cannot list")
    seen = await play([page(thing("a")), page(thing("a", 2, "5"))], [[no]])
    assert (seen.values, seen.informer.health.is_denied) == ({"a": 2}, False)
    assert sum(seen.waits) < 1.0


async def test_a_kind_that_is_not_served_any_more_is_said() -> None:
    seen = await play([page(thing("a"))], [[refusal(404, "NotFound", "no such page")]])
    assert seen.informer.health.is_denied
    assert "not served" in seen.informer.health.trouble


async def test_it_can_be_cancelled_wherever_it_is() -> None:
    closed: list[str] = []

    class Watched(Script):
        async def watch(
            self, scope: str, version: str, seconds: int
        ) -> AsyncGenerator[bytes, None]:
            try:
                async for each in super().watch(scope, version, seconds):
                    yield each
            finally:
                closed.append(version)

    played = Play([page(thing("a"))], [])
    played.informer._source = Watched([page(thing("a"))], [[bookmark("11")]])
    played.script = played.informer._source
    await played.to_its_end()
    assert closed == ["10", "11"]


def test_expired_is_the_error_of_410() -> None:
    assert isinstance(gone(), ExpiredError)
