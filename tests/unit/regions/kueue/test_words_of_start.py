"""What is said of a gang that was let in and does not stand yet, message by message."""

from typing import Any

import pytest

from regions.kueue.explanation import explain
from regions.kueue.objects.node import Node
from regions.kueue.objects.taints import Taint, Toleration
from regions.kueue.start_hearing import of_start
from regions.kueue.vocabulary import Word
from tests.unit.regions.kueue.tellings import (
    NOW_S,
    admitted,
    make_container,
    make_event,
    make_evidence,
    make_meta,
    make_node,
    make_pod,
    said,
    stuck,
    unbound,
)


def word_of(**changes: Any) -> Word:
    """The word for what a cluster tells of a gang of two that was let in."""
    return Word(explain(make_evidence(workload=admitted(), **changes)).word)


SCHEDULER = {
    "0/6 nodes are available: 2 Insufficient nvidia.com/gpu, 4 node(s) had untolerated taint {"
    "nvidia.com/gpu: present}.": Word.NODES_FULL,
    "0/6 nodes are available: 6 Too many pods.": Word.NODES_FULL,
    "0/6 nodes are available: 6 node(s) didn't match Pod's node affinity/selector.": (
        Word.NODES_DO_NOT_MATCH
    ),
    "0/2 nodes are available: 2 node(s) had untolerated taint {team: vision}.": Word.NODES_TAINTED,
    "0/2 nodes are available: 2 node(s) had untolerated taint(s).": Word.NODES_TAINTED,
    "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) had "
    "untolerated taint(s).": Word.NODES_TAINTED,
    "no nodes available to schedule pods": Word.NODES_COMING,
    'persistentvolumeclaim "checkpoints" not found': Word.VOLUME_KEEPS_IT_AWAY,
    "pod has unbound immediate PersistentVolumeClaims.": Word.VOLUME_KEEPS_IT_AWAY,
    "2 node(s) had volume node affinity conflict.": Word.VOLUME_KEEPS_IT_AWAY,
}


@pytest.mark.parametrize("message", SCHEDULER)
def test_the_scheduler_says(message: str) -> None:
    pod = unbound(0, said("PodScheduled", "Unschedulable", message, status=False))
    assert word_of(pods=(pod,)) is SCHEDULER[message]


ASKED = {"machine": "h100"}
BEARS = (Toleration(key="gpu", operator="Exists", value="", effect=""),)


def machine(name: str, kind: str, *marks: str) -> Node:
    taints = tuple(Taint(key=mark, value="yes", effect="NoSchedule") for mark in marks)
    return make_node(name, meta=make_meta(name, labels={"machine": kind}), taints=taints)


@pytest.mark.parametrize(
    ("machines", "expected"),
    [
        ((machine("a", "h100", "gpu", "theirs"), machine("b", "cpu")), "NODES_TAINTED theirs: yes"),
        ((machine("a", "h100"), machine("b", "h100", "z", "y")), "NODES_TAINTED y: yes"),
        ((machine("a", "cpu", "theirs"), machine("b", "cpu")), "NODES_DO_NOT_MATCH "),
        ((machine("a", "h100", "node.kubernetes.io/not-ready"),), "NODES_COMING 0 of 1 are here"),
        ((machine("a", "h100", "node.cilium.io/agent-not-ready"),), "NODES_COMING 0 of 1 are here"),
        ((machine("a", "h100", "gpu"),), "NODES_TAINTED "),
    ],
)
def test_marks_count_on_the_machines_that_it_is_meant_for(
    machines: tuple[Node, ...], expected: str
) -> None:
    message = "1 node(s) had untolerated taint(s), 1 node(s) didn't match Pod's node affinity"
    told = said("PodScheduled", "Unschedulable", message, status=False)
    pod = unbound(0, told, selector=ASKED, tolerations=BEARS)
    heard = of_start([pod], [], {each.meta.name: each for each in machines}, wanted=1, now_s=NOW_S)
    assert f"{heard.word} {heard.detail}" == expected


def test_something_gates_it() -> None:
    pod = unbound(0, said("PodScheduled", "SchedulingGated", status=False), gates=("x/y",))
    assert word_of(pods=(pod,)) is Word.GATED_BY_OTHERS


AUTOSCALER = {
    ("TriggeredScaleUp", "pod triggered scale-up: [{gke-pool 0->2 (max: 8)}]"): Word.NODES_COMING,
    (
        "FailedScaleUp",
        (
            "Node scale up in zones us-central1-a associated with this pod failed: GCE out of "
            "resources. Pod is at risk of not being scheduled."
        ),
    ): Word.STOCKOUT,
    ("FailedScaleUp", "Node scale up in zones a failed: Internal error."): Word.STOCKOUT,
    ("FailedScaleUp", "Node scale up failed: GCE quota exceeded."): Word.CLOUD_QUOTA_EXCEEDED,
    ("FailedScaleUp", "Node scale up failed: IP space exhausted."): Word.NO_ADDRESSES_LEFT,
    (
        "NotTriggerScaleUp",
        (
            "pod didn't trigger scale-up: 1 max node group size reached, 3 node(s) didn't match "
            "Pod's node affinity/selector"
        ),
    ): Word.POOL_AT_ITS_MAXIMUM,
    (
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 1 in backoff after failed scale-up",
    ): Word.STOCKOUT,
    (
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 3 node(s) didn't match Pod's node affinity/selector",
    ): Word.NO_POOL_FITS,
}


@pytest.mark.parametrize("told", AUTOSCALER)
def test_the_autoscaler_says(told: tuple[str, str]) -> None:
    events = (make_event(*told, about=unbound(0)),)
    assert word_of(pods=(unbound(0), unbound(1)), events=events) is AUTOSCALER[told]


def test_some_came_and_the_rest_cannot_be_had() -> None:
    events = (make_event("FailedScaleUp", "GCE out of resources", about=unbound(1)),)
    verdict = explain(
        make_evidence(workload=admitted(), pods=(make_pod(0), unbound(1)), events=events)
    )
    assert verdict.word == Word.PARTIAL_ARRIVAL
    assert verdict.sentence.endswith("1 of 2 are here")


def test_some_came_and_the_rest_are_on_their_way() -> None:
    events = (make_event("TriggeredScaleUp", "1->2", about=unbound(1)),)
    assert word_of(pods=(make_pod(0), unbound(1)), events=events) is Word.NODES_COMING


def test_machines_that_are_bought_again_are_on_their_way() -> None:
    events = (
        make_event("FailedScaleUp", "x", about=unbound(0), last_s=NOW_S - 60.0),
        make_event("TriggeredScaleUp", "0->2", about=unbound(0), last_s=NOW_S - 5.0),
    )
    assert word_of(pods=(unbound(0), unbound(1)), events=events) is Word.NODES_COMING


def test_what_was_told_an_hour_ago_is_not_told_of_now() -> None:
    events = (make_event("FailedScaleUp", "x", about=unbound(0), last_s=NOW_S - 3600.0),)
    assert word_of(pods=(unbound(0), unbound(1)), events=events) is Word.NODES_COMING


FORBIDDEN = 'Error creating: pods "cb-1" is forbidden: '
CREATION = {
    FORBIDDEN + 'violates PodSecurity "restricted:latest": runAsNonRoot != true': (
        Word.PODS_REFUSED_BY_SECURITY
    ),
    FORBIDDEN + "exceeded quota: compute, requested: pods=1": Word.PODS_REFUSED_BY_QUOTA,
    FORBIDDEN + "error looking up service account training/trainer: serviceaccount "
    '"trainer" not found': Word.SERVICE_ACCOUNT_MISSING,
    'admission webhook "policy.example.com" denied the request: not on fridays': Word.PODS_REFUSED,
    "Internal error occurred: gremlins": Word.PODS_REFUSED,
}


@pytest.mark.parametrize("message", CREATION)
def test_the_cluster_refuses_to_create_its_processes(message: str) -> None:
    assert word_of(events=(make_event("FailedCreate", message),)) is CREATION[message]


PULLS = {
    "rpc error: code = NotFound desc = failed to pull: x: not found": Word.IMAGE_NOT_FOUND,
    "manifest unknown": Word.IMAGE_NOT_FOUND,
    "failed to fetch oauth token: unexpected status: 403 Forbidden: not found": Word.IMAGE_NO_RIGHT,
    "pull access denied, repository does not exist or may require authorization": (
        Word.IMAGE_NO_RIGHT
    ),
    'denied: Permission "artifactregistry.repositories.downloadArtifacts" denied on resource': (
        Word.IMAGE_NO_RIGHT
    ),
    "429 Too Many Requests - toomanyrequests: denied: You have reached your pull rate limit": (
        Word.IMAGE_RATE_LIMITED
    ),
    "no match for platform in manifest sha256:1: not found": Word.IMAGE_WRONG_ARCHITECTURE,
    "no matching manifest for linux/arm64 in the manifest list": Word.IMAGE_WRONG_ARCHITECTURE,
    "write /var/lib/containerd/x: no space left on device": Word.IMAGE_DISK_FULL,
    "dial tcp: lookup registry.example: no such host": Word.REGISTRY_UNREACHABLE,
    "net/http: TLS handshake timeout": Word.REGISTRY_UNREACHABLE,
    "gremlins": Word.IMAGE_PULL_FAILING,
}


@pytest.mark.parametrize("message", PULLS)
def test_the_image_does_not_come(message: str) -> None:
    for reason, before in (("ErrImagePull", ""), ("ImagePullBackOff", 'Back-off pulling "x": ')):
        assert word_of(pods=(stuck(reason, before + message),)) is PULLS[message]


CREATES = {
    ("CreateContainerConfigError", 'secret "hub" not found'): Word.SECRET_MISSING,
    (
        "CreateContainerConfigError",
        "couldn't find key HF_TOKEN in Secret training/hub",
    ): Word.SECRET_KEY_MISSING,
    (
        "CreateContainerConfigError",
        "container has runAsNonRoot and image will run as root (pod: x)",
    ): Word.ROOT_REFUSED,
    ("CreateContainerError", "gremlins"): Word.CONTAINER_REFUSED,
    ("InvalidImageName", "couldn't parse image name"): Word.IMAGE_NAME_INVALID,
    ("PostStartHookError", "exit status 1"): Word.CONTAINER_REFUSED,
    ("CreatePodSandboxError", "cni"): Word.SANDBOX_FAILING,
    ("ContainerCreating", ""): Word.PODS_STARTING,
    ("Hibernating", "zzz"): Word.UNKNOWN,
}


@pytest.mark.parametrize("told", CREATES)
def test_the_machine_says_of_the_container(told: tuple[str, str]) -> None:
    assert word_of(pods=(stuck(*told), make_pod(1))) is CREATES[told]


SET_UP = 'MountVolume.SetUp failed for volume "{}" : '
MOUNTS = {
    SET_UP.format("broker-secret-0") + 'secret "hub" not found': Word.SECRET_MISSING,
    SET_UP.format("broker-launcher") + 'configmap "capacity-broker-launcher-1" not found': (
        Word.CONFIG_MISSING
    ),
    SET_UP.format("store") + "rpc error: code = PermissionDenied desc = failed to get GCS bucket": (
        Word.VOLUME_NO_RIGHT
    ),
    SET_UP.format("store") + "rpc error: code = NotFound desc = failed to get GCS bucket": (
        Word.VOLUME_MISSING
    ),
    SET_UP.format("nv") + "hostPath type check failed: /nv is not a directory": Word.VOLUME_MISSING,
    SET_UP.format("store") + "mount failed: exit status 32": Word.VOLUME_NOT_MOUNTED,
    "Unable to attach or mount volumes: unmounted volumes=[store], unattached volumes=[]: timed "
    "out waiting for the condition": Word.VOLUME_NOT_MOUNTED,
}


@pytest.mark.parametrize("message", MOUNTS)
def test_the_machine_says_of_the_volumes(message: str) -> None:
    events = (make_event("FailedMount", message, about=make_pod(0)),)
    assert word_of(pods=(stuck("ContainerCreating"),), events=events) is MOUNTS[message]


def test_the_network_of_a_process_does_not_come() -> None:
    events = (make_event("FailedCreatePodSandBox", "cni", about=make_pod(0)),)
    assert word_of(pods=(stuck("ContainerCreating"),), events=events) is Word.SANDBOX_FAILING


def test_a_mount_that_came_at_last_is_not_told_of_a_running_process() -> None:
    events = (make_event("FailedMount", SET_UP.format("store"), about=make_pod(0)),)
    assert word_of(pods=(make_pod(0), make_pod(1)), events=events) is Word.STANDING


def test_what_has_to_be_up_before_the_gang_fails() -> None:
    first = make_container("terminated", "Error", name="rxdm", is_init=True, exit_code=3)
    again = make_container("waiting", "CrashLoopBackOff", name="rxdm", is_init=True)
    own = make_container("waiting", "PodInitializing")
    for one in (first, again):
        pod = make_pod(0, phase="Pending", containers=(one, own))
        assert word_of(pods=(pod,)) is Word.SIDECAR_FAILING


def test_the_image_is_on_its_way() -> None:
    events = (make_event("Pulling", "Pulling image", about=make_pod(0)),)
    pods = (stuck("ContainerCreating"), make_pod(1))
    assert word_of(pods=pods, events=events) is Word.PULLING_IMAGE


def test_all_are_up_and_none_is_there_yet() -> None:
    assert word_of(pods=(make_pod(0), make_pod(1))) is Word.STANDING
    assert word_of() is Word.PODS_STARTING
