"""One of each event, every field set: what the golden files hold.

``python -m tests.unit.history.samples`` writes the golden files that are missing. It never touches
one that is there: old logs must load for ever.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

from broker.history import events as e
from broker.history import regional_events as r
from broker.history.codec import encode
from broker.model.bill import Bill, NodesFrom, PaidTime, PhaseCost
from broker.model.capacity import FlavorKey
from broker.model.checkpoint import Checkpoint, CheckpointRef, EpochId, Hold
from broker.model.copying import CopyKind
from broker.model.intent import (
    AfterMaxWait,
    CapacityType,
    CheckpointFormat,
    CheckpointSpec,
    HardwareOption,
    Input,
    Intent,
    Limits,
    ProgressSpec,
    Resources,
    SecretRef,
    Terms,
    TopologyWish,
    Workload,
)
from broker.model.policy import Patience, RegionPolicy, TeamCaps
from broker.model.reasons import FailureClass, Reason
from broker.model.run import Arrival, CloseRule, Purpose, RankEnd, Site
from broker.model.states import PlacementEnd, PlacementState, RunState

GOLDEN = Path(__file__).parents[2] / "golden" / "events" / "v1"

EPOCH = EpochId(number=3, nonce="k3j9x0q2m4zz")
PARENT_REF = CheckpointRef(
    epoch=EpochId(number=1, nonce="a1b2c3d4e5f6"), step=900, digest="ab" * 32, run_uid="p" * 20
)
REF = CheckpointRef(epoch=EPOCH, step=1200, digest="cd" * 32)
PLACEMENT = "p1q2r3s4t5u6"
TERMS = Terms(
    capacity_types=(CapacityType.SPOT, CapacityType.FLEX),
    regions=("europe-west4", "us-east1"),
    residency=("europe", "us"),
    max_wait_s=7200.0,
    after_max_wait=AfterMaxWait.LAST_RUNG,
    max_requeue_wait_s=3600.5,
    deadline_wall_s=1_800_000_000.25,
    expected_duration_s=14_400.0,
    budget=Decimal("125.50"),
    priority=-2,
    limits=Limits(user_restarts=2, infrastructure_losses=40),
)
WORKLOAD = Workload(
    command=("torchrun", "train.py", "--héllo"),
    hardware=(
        HardwareOption(
            accelerator="h100",
            accelerators_per_node=8,
            nodes=2,
            relative_speed=1.5,
            topology=TopologyWish.PREFERRED,
        ),
    ),
    image="registry.example/train@sha256:" + "0" * 64,
    env=(("LR", "0.1"),),
    bundle_digest="ef" * 32,
    resources=Resources(cpu_millis=4000, memory_bytes=2**34),
    secrets=(SecretRef(name="hub", env="HUB_TOKEN", mount_path="/secrets/hub"),),
    service_account="trainer",
    inputs=(Input(uri="gs://corpus/a", size_bytes=10, regions=("us-east1",), remote_reads=True),),
    checkpoint=CheckpointSpec(
        format=CheckpointFormat.PYTORCH_DCP, interval_s=600.0, keep_last=4, keep_every_steps=1000
    ),
    progress=ProgressSpec(timeout_s=900.0, loss_field="train/loss"),
    internet=True,
    service_account_token=True,
)
INTENT = Intent(
    team="vision", owner="ada", workload=WORKLOAD, terms=TERMS, labels=(("paper", "iclr"),)
)
SITE = Site(
    key=FlavorKey(cluster="eu4", queue="train", flavor="h100-spot"),
    region="europe-west4",
    capacity_type=CapacityType.SPOT,
    hardware_index=0,
    nodes=2,
    gpus=16,
    price_per_gpu_hour=Decimal("2.4375"),
    forecast_p50_s=60.0,
    forecast_p90_s=None,
    forecast_chance=0.85,
)
SEED = Checkpoint(
    ref=PARENT_REF,
    size_bytes=2**33,
    home="us-east1",
    written_wall_s=1_700_000_000.5,
    regions=frozenset({"us-east1", "europe-west4"}),
    is_sealed=True,
    is_bad=False,
    is_pinned=True,
    label="best",
    holds=(Hold(fork="teams/vision/runs/fork", since_s=7.5),),
)
POLICY = RegionPolicy(
    is_allowed=False,
    weight=0.5,
    capacity_types=(CapacityType.ON_DEMAND,),
    price_caps=((CapacityType.ON_DEMAND, Decimal("4.00")),),
    patience=Patience(
        quota_s=1.0,
        capacity_s=2.0,
        partial_s=3.0,
        flex_silent_s=4.0,
        image_pull_s=5.0,
        pods_s=6.0,
        wedged_s=7.0,
        cluster_silent_s=8.0,
        start_report_s=9.0,
        verdict_s=10.0,
        content_s=11.0,
        stockout_half_life_s=12.0,
    ),
    hedge_width=3,
    gate_timeout_s=600.0,
    fence_grace_s=20.0,
    drain_s=45.0,
    replace_unreachable_after_s=1800.0,
    checkpoint_copies=1,
    egress_budget_bytes_per_hour=2**40,
)

SAMPLES: tuple[e.Event, ...] = (
    e.Submitted(
        name="teams/vision/runs/digits",
        uid="u" * 20,
        intent=INTENT,
        request_id="5a2e",
        body_digest="01" * 32,
        forked_from="teams/vision/runs/parent",
        fork_checkpoint=SEED,
    ),
    e.Validated(),
    e.Rejected(
        reason=Reason.BUNDLE_MISSING,
        message="no such bundle",
        field="intent.workload.bundle_digest",
    ),
    e.TermsAmended(terms=TERMS, generation=4),
    e.WaitExplained(
        reason=Reason.WAITING_FOR_QUOTA,
        message="24 H100 ahead",
        next_action="add a leg",
        next_at_s=120.5,
    ),
    e.LadderClimbed(message="8 minutes are left"),
    e.PlacementAdded(
        placement=PLACEMENT, purpose=Purpose.HEDGE, site=SITE, message="soonest for the money"
    ),
    e.PlacementPrepared(placement=PLACEMENT),
    e.PlacementSeen(
        placement=PLACEMENT,
        state=PlacementState.PROVISIONING,
        reason=Reason.NODES_COMING,
        message="1 of 2 nodes",
        arrival=Arrival(ahead=0, ahead_gpus=0, nodes_here=1, nodes_wanted=2),
        cluster_uid="3f1c",
        nodes=(NodesFrom(at_s=1000.5, nodes=2), NodesFrom(at_s=1060.25, nodes=1)),
        expected_s=1200.5,
        machines_end_s=605_800.25,
    ),
    e.PlacementStuck(
        placement=PLACEMENT,
        cause=Reason.PARTIAL_ARRIVAL,
        evidence="the rest is out of stock",
        action="a leg elsewhere",
    ),
    e.WithdrawalOrdered(
        placement=PLACEMENT, reason=Reason.OTHER_LEG_STARTED, message="us-east1 was first"
    ),
    e.PlacementEnded(
        placement=PLACEMENT,
        end=PlacementEnd.PREEMPTED,
        reason=Reason.NODE_PREEMPTED,
        message="spot reclaim",
        failure=FailureClass.RESOURCE,
        bill=Bill(
            time=PaidTime(provisioning_ms=34_500, at_gate_ms=200_000, running_ms=1_000_000),
            cost=PhaseCost(
                provisioning=Decimal("0.023958"),
                at_gate=Decimal("0.138889"),
                running=Decimal("0.694444"),
            ),
        ),
        gone_s=1111.25,
    ),
    e.Granted(placement=PLACEMENT, epoch=EPOCH, resume_from=PARENT_REF),
    e.EpochStarted(epoch=EPOCH, nonces=("n0", "n1")),
    e.GangRunning(epoch=EPOCH),
    e.Progressed(epoch=EPOCH, step=1234, loss=0.03125),
    e.CheckpointCompleted(
        ref=REF, size_bytes=2**33, region="europe-west4", written_wall_s=1_700_000_123.0
    ),
    e.CheckpointRefused(
        epoch=EPOCH, step=1235, region="europe-west4", why="its marker cannot be read"
    ),
    e.CheckpointCopied(ref=REF, region="us-east1"),
    e.CheckpointLost(ref=REF, region="us-east1", message="shard 3 does not match"),
    e.CheckpointMarked(
        ref=REF, is_bad=True, is_pinned=False, label="spike", held_for="teams/vision/runs/fork"
    ),
    e.CheckpointPruned(ref=REF),
    e.RetirementBegun(),
    e.DrainRequested(
        epoch=EPOCH, reason=Reason.REGION_DRAINING, message="maintenance", deadline_s=400.0
    ),
    e.DrainAcknowledged(epoch=EPOCH, step=1300),
    e.StopOrdered(epoch=EPOCH, reason=Reason.TERMS_CHANGED, message="spot is not accepted"),
    e.ReplacementOrdered(epoch=EPOCH, by="ada", message="the region burns"),
    e.Sealed(
        epoch=EPOCH,
        rule=CloseRule.UNREACHABLE,
        checkpoints=(REF,),
        ends=(RankEnd(rank=1, exit_code=None, signal=9, cause="OOM"),),
        is_owed=True,
        reason=Reason.REPLACED_UNREACHABLE,
        message="silent for 30 minutes",
        failure=FailureClass.TRANSIENT,
    ),
    e.DebtPaid(epoch=EPOCH),
    e.Requeued(reason=Reason.NODE_PREEMPTED, message="spot reclaim", failure=FailureClass.RESOURCE),
    e.EndDecided(
        state=RunState.CANCELLED,
        reason=Reason.CANCELLED_BY_USER,
        message="enough",
        grace_s=30.0,
    ),
    e.Ended(
        state=RunState.FAILED,
        reason=Reason.USER_RESTARTS_SPENT,
        message="rank 0 ended with exit code 1",
        failure=FailureClass.USER,
    ),
    e.Resumed(step=900, from_start=False),
    e.Warned(reason=Reason.ZOMBIE_POSSIBLE, message="epoch 3 may still run"),
    e.EpochAdopted(
        epoch=EPOCH,
        placement=PLACEMENT,
        site=SITE,
        nonces=("n0", "n1"),
        resume_from=PARENT_REF,
        seals=(PARENT_REF,),
    ),
    e.EpochsSkipped(next_epoch=64),
    r.PolicySet(policy=POLICY, generation=2),
    r.RegionCordoned(message="flaky network"),
    r.RegionUncordoned(),
    r.RegionDrainBegan(message="maintenance", grace_s=90.0),
    r.RegionWaived(incarnation=2),
    r.StoreClaimed(store="0123456789abcdef"),
    r.StoreDoubted(reason=Reason.STORE_WIPED, message="it has lost its name"),
    r.StoreAccepted(lost="0123456789abcdef"),
    r.OrphanSeen(cluster="us-1", object="p9", message="of a run that nobody knows", is_ours=True),
    r.OrphanGone(cluster="us-1", object="p9"),
    r.OrphanRemovalOrdered(cluster="us-1", object="p9"),
    r.CopyRateMeasured(kind=CopyKind.IMAGE, source="us-east1", bytes_per_s=52_500_000.5),
    r.CapsSet(
        caps=TeamCaps(
            running_gpus=64,
            gate_gpus=32,
            gate_gpu_minutes_per_day=480.0,
            budget=Decimal("10000"),
        ),
        generation=3,
    ),
    r.SpendCarried(usd=Decimal("12.345678"), runs=7),
    r.IncarnationBegan(incarnation=2, is_restored=True, key="k0"),
    r.RegionSurveyed(region="us-east1", incarnation=2),
)


def write_missing() -> None:
    """Write each golden file that is not there."""
    for event in SAMPLES:
        name, data = encode(event)
        path = GOLDEN / f"{name}.json"
        if not path.exists():
            path.write_text(json.dumps(json.loads(data), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write_missing()
