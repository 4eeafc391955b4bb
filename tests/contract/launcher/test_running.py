"""A started gang with real launchers: fences, partitions, zombies, drains, notices and ends."""

import hashlib
import io
import os
import signal
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from broker.history.lineage import resumable
from broker.model.run import CloseRule
from regions import gatehouse
from regions.launcher import layout, rules
from regions.launcher.reading import Unreachable
from regions.launcher.rules import Closed, How, TryRevoke, Wish, WriteFence, judge
from regions.launcher.store import StoreUnreachable
from replicator.checkpoint.formats import Format
from replicator.checkpoint.manifest import FileDigest, Manifest, Replica, encode_replica
from replicator.checkpoint.paths import CheckpointPath
from replicator.hashing import crc32c_of
from tests.builders import Story
from tests.contract.launcher.gangs import KEYS, RUN, Gang, Site, exchange_of, grant_for, until

pytestmark = pytest.mark.alone
GRANT = grant_for("p1", 1)
EPOCH = GRANT.epoch


def running(site: Site, grant: layout.Grant = GRANT) -> Gang:
    gang = site.gang(grant.placement)
    gatehouse.write_grant(site.store, RUN, grant)
    site.wait_running(grant.epoch)
    return gang


def beats(site: Site) -> int:
    return sum(report.beat for report in site.epoch(EPOCH).reports.values())


def test_a_partition_during_the_fence_stops_no_training_and_the_fence_comes_through(
    site: Site,
) -> None:
    gang = running(site)
    site.shelf.cut()
    with pytest.raises(StoreUnreachable):
        gatehouse.fence(site.store, RUN, EPOCH, "move")
    silent = rules.Evidence(
        epoch=EPOCH,
        owner=Unreachable("away"),
        fence=Unreachable("away"),
        ended=frozenset(),
        gone=frozenset(),
        is_region_silent=True,
        go_on_by=None,
    )
    assert judge(silent, Wish.CLOSE) == rules.CannotSay("away")
    assert all(process.poll() is None for process in gang.processes.values())
    site.shelf.mend()
    before = beats(site)
    until(lambda: beats(site) > before, "the gang reports again")
    gatehouse.fence(site.store, RUN, EPOCH, "move")
    assert gang.exits() == [83, 83]
    verdict = judge(site.evidence(EPOCH), Wish.CLOSE)
    assert verdict == Closed(how=How.FENCED, is_owed=False)


def test_what_a_zombie_saves_after_the_seal_does_not_count_and_it_is_stopped_when_it_hears(
    site: Site,
) -> None:
    gang = running(site)
    known = site.save(EPOCH)
    log = Story().accepted().training().saved(known)
    silent = replace(
        site.evidence(EPOCH),
        owner=Unreachable("cut"),
        fence=Unreachable("cut"),
        is_region_silent=True,
        go_on_by="replace_unreachable_after",
    )
    assert judge(silent, Wish.CLOSE) == Closed(how=How.UNREACHABLE, is_owed=True)
    found = log.found(known)
    log.closed(rule=CloseRule.UNREACHABLE)
    newer = site.save(EPOCH)
    assert newer > known
    assert log.tell(replace(found, ref=replace(found.ref, step=newer))) == ()
    assert [c.ref.step for c in resumable(log.run)] == [known]
    # The region answers again, and what is owed is paid.
    verdict = judge(site.evidence(EPOCH), Wish.CLOSE)
    assert isinstance(verdict, WriteFence)
    gatehouse.fence(site.store, RUN, EPOCH, "replaced")
    assert gang.exits() == [83, 83]


def test_the_success_of_a_zombie_is_not_read_any_more(site: Site) -> None:
    gang = running(site)
    known = site.see()
    (site.trace / "finish").touch()
    assert gang.exits() == [0, 0]
    closed = gatehouse.Closed(epochs=frozenset({EPOCH}), placements=frozenset({"p1"}))
    assert site.see(known, closed) == known
    assert known.epochs[EPOCH].ends == {}


def test_a_gang_whose_broker_and_store_are_away_trains_on_and_its_end_is_kept(site: Site) -> None:
    gang = running(site)
    first = site.save(EPOCH)
    site.shelf.cut()
    (site.trace / "finish").touch()
    until(lambda: len(exchange_of(site, "p1")) == 2, "both ends are kept locally")
    site.shelf.mend()
    assert gang.exits() == [0, 0]
    seen = site.epoch(EPOCH)
    assert seen.checkpoints == (first,)
    assert {(e.kind, e.cause, e.exit_code) for e in seen.ends.values()} == {
        (layout.EXITED, "command", 0)
    }


def test_a_drain_is_passed_on_and_its_answer_comes_back(site: Site) -> None:
    gang = running(site)
    order = layout.DrainOrder(reason="move", grace_s=60.0, deadline_unix_s=None)
    gatehouse.drain(site.store, RUN, EPOCH, order)
    until(lambda: all(r.is_drained for r in site.epoch(EPOCH).reports.values()), "all acknowledge")
    assert all(r.drained_step == r.step for r in site.epoch(EPOCH).reports.values())
    assert all(process.poll() is None for process in gang.processes.values())
    (site.trace / "finish").touch()
    # Its command exits with 0 now; that does not mean that the run has finished.
    assert gang.exits() == [89, 89]


def test_a_preemption_notice_drains_and_then_stops(site: Site) -> None:
    gang = running(site)
    gang.kill(signal.SIGTERM)
    assert gang.exits() == [87, 87]
    seen = site.epoch(EPOCH)
    assert {(e.kind, e.cause) for e in seen.ends.values()} == {(layout.STOPPED, "preempted")}
    assert all(report.is_drained for report in seen.reports.values())


def test_a_preemption_notice_is_passed_on_while_the_store_is_silent(site: Site) -> None:
    gang = running(site)
    site.shelf.cut()
    gang.kill(signal.SIGTERM)
    # It lets go of its machine for the notice, and cannot say so where nobody answers.
    until(lambda: len(exchange_of(site, "p1")) == 2, "both ends are kept locally")
    assert [end["cause"] for end in exchange_of(site, "p1")] == ["preempted", "preempted"]
    site.shelf.mend()
    assert gang.exits() == [87, 87]


def test_a_command_that_ignores_sigterm_is_killed_with_all_it_started(site: Site) -> None:
    pids = site.trace / "pids"
    script = (
        "import os,signal,subprocess,sys,time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', "
        "'import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'])\n"
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}} {{child.pid}}\\n')\n"
        "time.sleep(600)\n"
    )
    gatehouse.write_grant(site.store, RUN, GRANT)
    gang = site.gang("p1", env={"BROKER_GRACE_S": "0.3"}, command=(sys.executable, "-c", script))
    until(lambda: pids.exists() and len(pids.read_text().split()) == 4, "all four run")
    gatehouse.fence(site.store, RUN, EPOCH, "cancel")
    assert gang.exits() == [83, 83]
    assert {end.signal for end in site.epoch(EPOCH).ends.values()} == {signal.SIGKILL}
    until(lambda: not any(map(is_alive, pids.read_text().split())), "none of them is left")


def test_a_command_does_not_outlive_a_killed_launcher(site: Site) -> None:
    gang = running(site)
    pids = [path.name.split("-")[2] for path in site.trace.iterdir()]
    gang.kill()
    gang.exits()
    until(lambda: not any(map(is_alive, pids)), "no training process is left")
    assert site.epoch(EPOCH).ends == {}


@pytest.mark.parametrize(
    ("command", "status", "exit_code", "number"),
    [
        (("sh", "-c", "exit 7"), 7, 7, None),
        (("sh", "-c", "kill -9 $$"), 137, None, 9),
        (("/nowhere/at/all",), 127, 127, None),
    ],
)
def test_exit_codes_and_signals_are_kept_in_the_store_and_here(
    site: Site,
    command: tuple[str, ...],
    status: int,
    exit_code: int | None,
    number: int | None,
    capfd: pytest.CaptureFixture[str],
) -> None:
    gatehouse.write_grant(site.store, RUN, GRANT)
    assert site.gang("p1", command=command).exits() == [status, status]
    seen = site.epoch(EPOCH)
    assert {(e.exit_code, e.signal) for e in seen.ends.values()} == {(exit_code, number)}
    assert {(e["exit_code"], e["signal"]) for e in exchange_of(site, "p1")} == {(exit_code, number)}
    # Each rank's log says what could not be run, and what ran has the log to itself.
    said = "launcher: cannot run /nowhere/at/all: No such file or directory\n"
    assert capfd.readouterr().err == (2 * said if status == 127 else "")


def test_the_bundle_is_the_working_directory_and_a_bad_one_starts_nothing(site: Site) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("code/hello.txt")
        member.size = 5
        archive.addfile(member, io.BytesIO(b"hello"))
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    site.store.create_if_absent(layout.bundle_key(digest), packed.getvalue())
    gatehouse.write_grant(site.store, RUN, grant_for("p1", 1, bundle=digest))
    command = ("sh", "-c", "test $(cat code/hello.txt) = hello")
    assert site.gang("p1", command=command).exits() == [0, 0]
    gatehouse.write_grant(site.store, RUN, grant_for("p2", 2, bundle="0" * 64))
    assert site.gang("p2", command=command).exits() == [84, 84]


def test_a_checkpoint_that_lost_a_file_starts_nothing(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    epoch = layout.EpochId(number=1, nonce="a" * 32)
    folder = KEYS.checkpoint(epoch, 20)
    data = {".complete": b"{}", "model": b"12345678"}
    files = tuple(
        FileDigest(
            name=name,
            size_bytes=len(held),
            sha256=hashlib.sha256(held).hexdigest(),
            crc32c=crc32c_of(held),
        )
        for name, held in data.items()
    )
    replica = Replica(
        path=CheckpointPath.parse(folder),
        manifest=Manifest(epoch=epoch.name, step=20, format=Format.FILES, files=files),
        generations=dict.fromkeys(data, "1"),
        sources={},
    )
    for name, held in {**data, "_REPLICA.json": encode_replica(replica)}.items():
        site.store.create_if_absent(f"{folder}/{name}", held)
    seals = (layout.Seal(epoch=epoch, steps=((20, replica.manifest.digest),)),)
    command = ("sh", "-c", f"test $BROKER_RESUME_DIGEST = {replica.manifest.digest}")
    whole = grant_for("p2", 2, resume_from=folder, seals=seals)
    gatehouse.write_grant(site.store, RUN, whole)
    assert site.gang("p2", command=command).exits() == [0, 0]
    site.store.delete(f"{folder}/model")
    gatehouse.write_grant(site.store, RUN, grant_for("p3", 3, resume_from=folder, seals=seals))
    assert site.gang("p3", command=command).exits() == [90, 90]
    said = f"launcher: {folder}/'model' is not there as the manifest says\n"
    assert capfd.readouterr().err == 2 * said


def test_a_bad_configuration_is_said_by_name_and_status(site: Site) -> None:
    gang = site.gang("p1", env={"RANK": "7"})
    assert gang.exits() == [85, 85]


def test_a_region_lost_before_it_was_known_to_start_owes_its_revocation(site: Site) -> None:
    gatehouse.write_grant(site.store, RUN, GRANT)
    assert judge(site.evidence(EPOCH), Wish.CLOSE) == TryRevoke()
    assert gatehouse.revoke(site.store, RUN, 1, "replaced") == layout.Revoked(by="replaced")
    assert judge(site.evidence(EPOCH), Wish.CLOSE) == Closed(how=How.REVOKED, is_owed=False)
    assert site.gang("p1").exits() == [82, 82]


def is_alive(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z" and os.path.exists(f"/proc/{pid}")
