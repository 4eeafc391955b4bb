"""Orders, sites and profiles for tests: valid without an argument; a test sets what it is about."""

from dataclasses import replace
from typing import Any

from regions.cluster import Queue
from regions.gang import Gang
from regions.kueue.profile_rules import read_profiles
from regions.kueue.profiles import Profile
from regions.kueue.site import Site

IMAGE = "europe-docker.pkg.dev/lab/train/llm@sha256:" + "a" * 64
PACKED = b"#!/usr/bin/env python3\nnot really a launcher"
STORE = {"name": "store", "mount_path": "/stores/eu", "claim": "checkpoints"}


def make_queue(**changes: Any) -> Queue:
    """Two ranks with eight H100 each, on spot."""
    gang = changes.pop("gang", {})
    queue = Queue(
        placement="k3v9q0aa1b2c",
        run_key="runkey00000000000001",
        run_name="teams/vision/runs/one",
        queue="ours",
        flavor="h100-spot",
        gang=replace(Gang(ranks=2, accelerator="h100", accelerators_per_node=8), **gang),
        command=("python", "train.py"),
        env={},
        image=IMAGE,
        bundle_digest="",
        secrets=(),
        service_account="",
        priority=0,
        granted_priority=1_000_000,
        gate_timeout_s=900.0,
        stop_grace_s=30.0,
        labels={"team": "vision", "owner": "ada", "run": "teams/vision/runs/one"},
        capacity_type="SPOT",
    )
    return replace(queue, **changes)


def make_profile(**fields: Any) -> Profile:
    """A profile with its store on a claim; ``volumes`` are added to it."""
    raw = {"store": "/stores/eu", **fields}
    raw["volumes"] = [STORE, *fields.get("volumes", ())]
    return read_profiles({"default": raw}, allows_host_paths=True).default


def make_site(**changes: Any) -> Site:
    """A flavor of spot machines on GKE."""
    profile = changes.pop("profile", None) or make_profile()
    site = Site(
        namespace="training",
        cluster="west",
        region="europe-west4",
        is_gke=True,
        node_labels={"cloud.google.com/gke-spot": "true"},
        taints=(),
        topology="",
        levels=(),
        priority_classes={"broker-waiting": -1_000_000, "broker-0": 0, "broker-run": 1_000_000},
        profile=profile,
        accelerator_label="nvidia-h100-80gb",
    )
    return replace(site, **changes)


def trainer_of(jobset: dict[str, Any]) -> dict[str, Any]:
    """The container that trains."""
    container: dict[str, Any] = spec_of(jobset)["containers"][0]
    return container


def spec_of(jobset: dict[str, Any]) -> dict[str, Any]:
    """The spec of the pods."""
    spec: dict[str, Any] = template_of(jobset)["spec"]
    return spec


def template_of(jobset: dict[str, Any]) -> dict[str, Any]:
    """The template of the pods."""
    job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    template: dict[str, Any] = job["template"]
    return template
