"""A look into a bucket costs one listing, and one read for each record that was written since."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from regions import gatehouse
from regions.launcher import codec, layout
from regions.launcher.bucket import BucketStore
from regions.launcher.store import Store
from regions.store_eye import CHARGED_CALM_S, CLAIMS_S, Look, StoreEye
from tests.contract.launcher.shelves import buckets
from tests.fakes.gcs import FakeGcs
from tests.unit.regions.test_gatehouse import END, EPOCH, GRANT, KEYS, REPORT, RUN, STARTED, A, B

PAGE = 1000


@dataclass
class Scene:
    """A bucket with one run that trains, and an eye on it."""

    fake: FakeGcs
    store: BucketStore
    eye: StoreEye
    now_s: float = 0.0

    def look(self, *, after_s: float = 0.5) -> Look:
        self.now_s += after_s
        self.fake.faults.asked.clear()
        return self.eye.look([RUN], frozenset(), self.now_s)

    @property
    def asked(self) -> list[str]:
        return [operation for operation, _ in self.fake.faults.asked]


@pytest.fixture
def scene() -> Iterator[Scene]:
    with buckets() as (fake, _, store):
        gatehouse.claim_identity(store, "one")
        gatehouse.write_grant(store, RUN, GRANT)
        store.create_if_absent(KEYS.owner(1), codec.write_owner(STARTED))
        for nonce in (A, B):
            report = replace(REPORT, nonce=nonce)
            store.put(KEYS.report(EPOCH, nonce), codec.write_report(report))
        made = Scene(fake, store, StoreEye(store))
        made.look()
        yield made


def save(store: Store, step: int, files: int) -> None:
    for number in range(files):
        store.put(f"{KEYS.checkpoint(EPOCH, step)}/__{number}_0.distcp", b"x")
    store.put(f"{KEYS.checkpoint(EPOCH, step)}/.metadata", b"x")


def test_a_look_at_a_run_of_which_nothing_is_new_is_one_listing_and_the_stores_name(
    scene: Scene,
) -> None:
    look = scene.look()
    assert (look.trouble, [seen.owner.name for seen in look.epochs.values()]) == ("", ["STARTED"])
    assert scene.asked == ["objects.list", "objects.media"]


def test_a_look_reads_what_was_written_since_and_nothing_else(scene: Scene) -> None:
    scene.store.put(KEYS.report(EPOCH, A), codec.write_report(replace(REPORT, beat=2, step=8)))
    scene.store.create_if_absent(KEYS.end(EPOCH, B), codec.write_end(END))
    save(scene.store, 8, 3)
    (seen,) = scene.look().epochs.values()
    assert [(one.rank, one.step) for one in seen.reports] == [(0, 8), (1, 7)]
    assert ([end.rank for end in seen.ends], seen.checkpoints) == ([1], (8,))
    assert scene.asked == ["objects.list", *["objects.media"] * 3]


def records_kept(scene: Scene) -> set[str]:
    return {key for kept in scene.eye._kept.values() for key in kept.records}


def test_only_what_a_look_may_read_again_is_kept(scene: Scene) -> None:
    """What is final is known without its bytes, and nobody looks again at a run that is over."""
    scene.look()
    assert records_kept(scene) == {KEYS.report(EPOCH, nonce) for nonce in (A, B)}
    for nonce in (A, B):
        end = replace(END, nonce=nonce)
        scene.store.create_if_absent(KEYS.end(EPOCH, nonce), codec.write_end(end))
    scene.look()
    scene.eye.look([], frozenset(), scene.now_s)
    assert records_kept(scene) == set()


def test_checkpoints_of_more_files_than_a_page_cost_a_bounded_number_of_listings(
    scene: Scene,
) -> None:
    with scene.fake.lock:
        for step in range(20):
            for number in range(PAGE // 4):
                name = f"broker/{KEYS.checkpoint(EPOCH, step)}/__{number}_0.distcp"
                scene.fake.cloud.insert("east", name, b"x", {}, {})
    save(scene.store, 5, 1)
    save(scene.store, 19, 1)
    scene.store.create_if_absent(KEYS.fence(EPOCH), codec.write_fence(layout.Fence(reason="go")))
    (seen,) = scene.look().epochs.values()
    assert (seen.checkpoints, seen.is_fence_written) == ((5, 19), True)
    # A page that ends among checkpoints, what is behind them, the steps, and each unfinished one.
    assert scene.asked.count("objects.list") == 3 + 20


def test_who_the_store_is_is_asked_now_and_then_and_what_is_in_doubt_at_once(scene: Scene) -> None:
    scene.look(after_s=CLAIMS_S)
    assert scene.asked.count("objects.list") == 2
    scene.store.put(layout.IDENTITY, b"two")
    assert "another store" in scene.look().trouble
    look = scene.look()
    assert look.claims is not None
    assert (look.trouble, look.claims.identity) == ("", "two")


def test_a_run_in_which_nothing_is_about_to_happen_is_listed_as_often_as_it_reports(
    scene: Scene,
) -> None:
    calm = frozenset({RUN})
    scene.fake.faults.asked.clear()
    scene.eye.look(calm, frozenset(), scene.now_s + CHARGED_CALM_S - 1.0, calm)
    assert "objects.media" not in scene.asked
    scene.eye.look(calm, frozenset(), scene.now_s + CHARGED_CALM_S, calm)
    assert "objects.media" in scene.asked


def test_a_bucket_that_is_gone_hides_nothing_that_was_known(scene: Scene) -> None:
    scene.fake.cloud.drop_bucket("east")
    look = scene.look()
    assert look.trouble
    assert [seen.owner.name for seen in look.epochs.values()] == ["STARTED"]
