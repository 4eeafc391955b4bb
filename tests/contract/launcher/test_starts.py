"""The start protocol with real launchers on a real store: who starts, and who does not."""

import signal

import pytest

from regions import gatehouse
from regions.launcher import codec, layout
from regions.launcher.rules import Closed, How, StillOpen, Wish, WriteFence, judge
from tests.contract.launcher.gangs import KEYS, RUN, Site, Sites, grant_for, until

pytestmark = pytest.mark.alone


def test_of_two_legs_whole_at_once_only_the_granted_one_trains(sites: Sites) -> None:
    grant = grant_for("p1", 1)
    with sites("east") as east, sites("west") as west:
        first, second = east.gang("p1"), west.gang("p2")
        east.wait_whole("p1")
        west.wait_whole("p2")
        gatehouse.write_grant(east.store, RUN, grant)
        east.wait_running(grant.epoch)
        assert gatehouse.can_withdraw(west.store, RUN, "p2", is_closed=False)
        second.kill(signal.SIGTERM)
        assert second.exits() == [86, 86]
        (east.trace / "finish").touch()
        assert first.exits() == [0, 0]
        assert (east.started(), west.started()) == ({(1, 0), (1, 1)}, set())


def test_a_grant_that_comes_before_its_gang_starts_it_without_a_broker(site: Site) -> None:
    grant = grant_for("p1", 1)
    gatehouse.write_grant(site.store, RUN, grant)
    gang = site.gang("p1")
    site.wait_running(grant.epoch)
    (site.trace / "finish").touch()
    assert gang.exits() == [0, 0]
    assert judge(site.evidence(grant.epoch), Wish.LET_RUN) == Closed(how=How.ENDED, is_owed=False)


def test_a_grant_that_lands_after_its_revocation_starts_nothing(site: Site) -> None:
    grant = grant_for("p1", 1)
    gang = site.gang("p1")
    site.wait_whole("p1")
    assert gatehouse.revoke(site.store, RUN, 1, "cancel") == layout.Revoked(by="cancel")
    gatehouse.write_grant(site.store, RUN, grant)
    assert gang.exits() == [82, 82]
    assert site.started() == set()
    assert {end.kind for end in site.epoch(grant.epoch).ends.values()} == {layout.LEFT_GATE}


def test_a_grant_an_hour_late_does_not_disturb_the_epoch_after_it(sites: Sites) -> None:
    late, grant = grant_for("p1", 1), grant_for("p2", 2)
    with sites("east") as east, sites("west") as west:
        stale = east.gang("p1")
        east.wait_whole("p1")
        gatehouse.revoke(east.store, RUN, 1, "stuck")
        west.gang("p2")
        gatehouse.write_grant(west.store, RUN, grant)
        west.wait_running(grant.epoch)
        gatehouse.write_grant(east.store, RUN, late)
        assert stale.exits() == [82, 82]
        assert (east.started(), west.started()) == (set(), {(2, 0), (2, 1)})


def test_a_withdrawal_an_hour_late_meets_a_started_gang_and_is_refused(site: Site) -> None:
    grant = grant_for("p1", 1)
    site.gang("p1")
    gatehouse.write_grant(site.store, RUN, grant)
    site.wait_running(grant.epoch)
    assert not gatehouse.can_withdraw(site.store, RUN, "p1", is_closed=False)
    assert gatehouse.can_withdraw(site.store, RUN, "p1", is_closed=True)


def test_a_broker_restarted_between_log_and_grant_writes_the_same_grant_again(site: Site) -> None:
    grant = grant_for("p1", 1)
    gatehouse.write_grant(site.store, RUN, grant)
    gatehouse.write_grant(site.store, RUN, grant)
    with pytest.raises(gatehouse.RecordConflictError):
        gatehouse.write_grant(site.store, RUN, grant_for("p1", 2))
    assert site.see().placements["p1"].grant == grant


def test_an_evicted_gang_brought_back_with_the_grant_in_place_does_not_train(site: Site) -> None:
    grant = grant_for("p1", 1)
    first = site.gang("p1")
    gatehouse.write_grant(site.store, RUN, grant)
    site.wait_running(grant.epoch)
    listed = site.epoch(grant.epoch).owner
    assert isinstance(listed, layout.Started)
    first.kill()
    first.exits()
    assert site.gang("p1").exits() == [81, 81]
    assert len(list(site.trace.iterdir())) == 2
    verdict = judge(site.evidence(grant.epoch), Wish.LET_RUN)
    assert verdict == StillOpen(listed.nonces)
    verdict = judge(site.evidence(grant.epoch, gone=frozenset(listed.nonces)), Wish.LET_RUN)
    assert verdict == Closed(how=How.ENDED, is_owed=False)


def test_a_gang_whose_rank_0_died_right_after_the_owner_is_fenced(site: Site) -> None:
    grant, ghost = grant_for("p1", 1), "f" * 32
    gatehouse.write_grant(site.store, RUN, grant)
    gang = site.gang("p1", ranks=(1,))
    until(lambda: bool(site.store.list(KEYS.gates("p1"))), "rank 1 stands at the gate")
    other = site.store.list(KEYS.gates("p1"))[0]
    owner = layout.Started(grant_nonce=grant.epoch.nonce, placement="p1", nonces=(ghost, other))
    site.store.create_if_absent(KEYS.owner(1), codec.write_owner(owner))
    site.wait_running(grant.epoch, ranks=1)
    evidence = site.evidence(grant.epoch, gone=frozenset({ghost}))
    assert judge(evidence, Wish.CLOSE) == WriteFence((other,))
    gatehouse.fence(site.store, RUN, grant.epoch, "not every rank runs")
    assert gang.exits() == [83]
    evidence = site.evidence(grant.epoch, gone=frozenset({ghost}))
    assert judge(evidence, Wish.CLOSE) == Closed(how=How.FENCED, is_owed=False)


def test_a_cancel_after_an_early_grant_wins_if_it_comes_before_the_gang(site: Site) -> None:
    grant = grant_for("p1", 1)
    gatehouse.write_grant(site.store, RUN, grant)
    assert gatehouse.revoke(site.store, RUN, 1, "cancel") == layout.Revoked(by="cancel")
    assert site.gang("p1").exits() == [82, 82]
    assert site.started() == set()


def test_an_amend_after_an_early_grant_that_started_fences_it(site: Site) -> None:
    grant = grant_for("p1", 1)
    gatehouse.write_grant(site.store, RUN, grant)
    gang = site.gang("p1")
    site.wait_running(grant.epoch)
    assert isinstance(gatehouse.revoke(site.store, RUN, 1, "amend"), layout.Started)
    gatehouse.fence(site.store, RUN, grant.epoch, "amended")
    assert gang.exits() == [83, 83]
    verdict = judge(site.evidence(grant.epoch), Wish.CLOSE)
    assert verdict == Closed(how=How.FENCED, is_owed=False)


def test_a_fence_before_the_start_is_heard_at_the_gate(site: Site) -> None:
    grant = grant_for("p1", 1)
    gatehouse.fence(site.store, RUN, grant.epoch, "cancel")
    gatehouse.write_grant(site.store, RUN, grant)
    assert site.gang("p1").exits() == [83, 83]
    assert site.started() == set()


def test_a_gang_that_nobody_grants_leaves_by_itself(site: Site) -> None:
    gang = site.gang("p1", env={"BROKER_GATE_TIMEOUT_S": "0.3"})
    assert gang.exits() == [80, 80]
    ends = [name for name in site.store.list(KEYS.gates("p1")) if name.endswith(".end")]
    assert len(ends) == 2


def test_half_a_gang_never_starts(site: Site) -> None:
    gatehouse.write_grant(site.store, RUN, grant_for("p1", 1))
    gang = site.gang("p1", ranks=(0,), env={"BROKER_GATE_TIMEOUT_S": "1"})
    assert gang.exits() == [80]
    assert site.started() == set()
