"""What a broker does that wakes up from a backup."""

from regions.launcher import layout, restore
from regions.launcher.codec import Unreadable
from regions.launcher.reading import Absent, Reading
from regions.launcher.restore import Adopted, FoundEpoch, NotSeen, Revocations, StoreSeen
from regions.launcher.rules import Owner

NONE: frozenset[str] = frozenset()
NO_NUMBER: frozenset[int] = frozenset()


def epoch(number: int) -> layout.EpochId:
    return layout.EpochId(number=number, nonce=f"{number:032x}")


def seal(number: int, *steps: int) -> layout.Seal:
    return layout.Seal(epoch=epoch(number), steps=tuple((step, f"{step:064x}") for step in steps))


def grant(number: int, *seals: layout.Seal) -> layout.Grant:
    return layout.Grant(
        placement=f"p{number}",
        epoch=epoch(number),
        world_size=1,
        incarnation=1,
        resume_from=None,
        bundle=None,
        seals=seals,
    )


def started(number: int) -> layout.Started:
    return layout.Started(
        grant_nonce=epoch(number).nonce, placement=f"p{number}", nonces=(f"{number:08x}",)
    )


def store(
    owners: dict[int, Reading[Owner]], *grants: layout.Grant, region: str = "east"
) -> StoreSeen:
    return StoreSeen(region=region, owners=owners, grants=grants)


REVOKED = layout.Revoked(by="restore")


def test_nothing_is_decided_before_every_cluster_and_store_was_seen() -> None:
    answer = restore.adopt(3, 5, (), (store({}),), frozenset({"west", "asia"}), settled=NO_NUMBER)
    assert answer == NotSeen(("asia", "west"))


def test_an_owner_that_cannot_be_read_is_not_seen() -> None:
    answer = restore.adopt(3, 4, (), (store({4: Unreadable("garbage")}),), NONE, settled=NO_NUMBER)
    assert answer == NotSeen(("east epoch 4",))


def test_an_owner_that_cannot_be_read_holds_up_nothing_when_the_log_knows_its_epoch_closed() -> (
    None
):
    garbled = (store({2: Unreadable("garbage"), 3: Unreadable("garbage"), 4: REVOKED}),)
    known = frozenset({2, 3})
    assert restore.adopt(3, 4, (seal(2, 7),), garbled, NONE, settled=known) == Adopted(
        open=(), over=(), closed=frozenset(), next_number=5, seals=(seal(2, 7),)
    )
    # One that is open, or owes its fence, is not known from the log.
    answer = restore.adopt(3, 4, (), garbled, NONE, settled=frozenset({2}))
    assert answer == NotSeen(("east epoch 3",))


def test_every_number_above_the_log_is_revoked_in_every_store_up_to_the_margin() -> None:
    stores = (store({4: REVOKED, 5: Absent()}, grant(5)), store({}, region="west"))
    top = restore.top_number(3, stores, margin=1)
    assert top == 6
    assert restore.adopt(3, top, (), stores, NONE, settled=NO_NUMBER) == Revocations(
        (("east", 5), ("east", 6), ("west", 4), ("west", 5), ("west", 6))
    )


def test_a_started_epoch_above_the_log_is_taken_over_and_the_next_starts_above_all() -> None:
    carried, own = seal(3, 10), seal(3, 10, 20)
    stores = (store({4: started(4), 5: REVOKED}, grant(4, carried)),)
    found = FoundEpoch(region="east", epoch=epoch(4), placement="p4", nonces=started(4).nonces)
    assert restore.adopt(3, 5, (own,), stores, NONE, settled=NO_NUMBER) == Adopted(
        open=(found,), over=(), closed=frozenset({epoch(3)}), next_number=6, seals=(carried,)
    )


def test_a_started_epoch_whose_seal_a_later_grant_carries_is_closed() -> None:
    stores = (store({4: started(4), 5: REVOKED}, grant(4), grant(5, seal(4, 7))),)
    over = FoundEpoch(region="east", epoch=epoch(4), placement="p4", nonces=started(4).nonces)
    assert restore.adopt(3, 5, (), stores, NONE, settled=NO_NUMBER) == Adopted(
        open=(), over=(over,), closed=frozenset({epoch(4)}), next_number=6, seals=(seal(4, 7),)
    )


def test_an_epoch_that_the_log_knows_is_left_to_the_judge() -> None:
    stores = (store({3: started(3), 4: REVOKED}, grant(3)),)
    assert restore.adopt(3, 4, (), stores, NONE, settled=NO_NUMBER) == Adopted(
        open=(), over=(), closed=frozenset(), next_number=5, seals=()
    )


def test_the_seals_of_a_grant_that_started_go_first_then_those_of_the_later() -> None:
    ran = [FoundEpoch(region="east", epoch=epoch(4), placement="p4", nonces=("0" * 8,))]
    grants = [grant(4, seal(3, 1)), grant(9, seal(3, 2), seal(4, 2)), grant(8, seal(4, 3))]
    merged = restore.merge_seals([seal(2, 9), seal(3, 9)], grants, ran)
    assert merged == (seal(2, 9), seal(3, 1), seal(4, 2))


def test_a_newer_life_in_a_store_ends_the_older() -> None:
    assert restore.is_superseded(2, [1, 2, 3])
    assert not restore.is_superseded(2, [1, 2])


def test_a_trace_far_above_all_that_was_ever_granted_waits_for_a_person() -> None:
    absurd = layout.MAX_EPOCH_NUMBER
    stores = (store({4: REVOKED, absurd: started(absurd)}),)
    top = restore.top_number(3, stores, margin=1)
    assert top == 5
    assert restore.adopt(3, top, (), stores, NONE, settled=NO_NUMBER) == NotSeen(
        (f"east epoch {absurd}",)
    )
