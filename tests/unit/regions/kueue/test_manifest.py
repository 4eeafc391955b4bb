"""What is sent for a placement: one gang that never restarts, closed by default, its owner told."""

import base64
import json
from typing import Any

import pytest

from regions.kueue import names
from regions.kueue.manifest import (
    FLEX_RUN_ANNOTATION,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    CannotQueueError,
    build,
    granted_class,
    occupant,
    owned,
)
from regions.kueue.objects.job_set import read_job_set
from regions.kueue.objects.reading import Fields
from regions.kueue.site import own_class, priority_class
from regions.launcher.pack import pack
from tests.unit.regions.kueue.making import (
    IMAGE,
    PACKED,
    make_profile,
    make_queue,
    make_site,
    spec_of,
    template_of,
    trainer_of,
)
from tests.unit.regions.kueue.restricted import forbidden


def test_a_gang_is_one_job_that_never_restarts() -> None:
    jobset = build(make_queue(), make_site(), PACKED).jobset
    assert jobset["spec"]["suspend"] is True
    assert jobset["spec"]["failurePolicy"]["maxRestarts"] == 0
    assert jobset["spec"]["ttlSecondsAfterFinished"] == 3 * 86_400
    (replicated,) = jobset["spec"]["replicatedJobs"]
    assert replicated["replicas"] == 1
    job = replicated["template"]["spec"]
    assert {name: job[name] for name in job if name != "template"} == {
        "completionMode": "Indexed",
        "parallelism": 2,
        "completions": 2,
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
    }
    assert spec_of(jobset)["restartPolicy"] == "Never"


def test_it_goes_into_its_queue_with_a_priority_that_preempts_nobody() -> None:
    labels = build(make_queue(), make_site(), PACKED).jobset["metadata"]["labels"]
    assert labels[QUEUE_LABEL] == "ours"
    assert labels[PRIORITY_LABEL] == "broker-0"


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        (-5_000_000, "waiting"),
        (-1, "waiting"),
        (0, "normal"),
        (999, "normal"),
        (1_000_000, "granted"),
    ],
)
def test_a_priority_gets_the_highest_class_that_is_not_above_it(
    priority: int, expected: str
) -> None:
    classes = {"normal": 0, "granted": 1_000_000, "waiting": -1_000_000}
    assert priority_class(classes, priority) == expected


CLUSTER = {"waits": -1000, "low": 10, "normal": 100, "production": 10_000, "critical": 100_000}


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        (-1000, "low"),
        (0, "low"),
        (99, "low"),
        (1000, "normal"),
        (10_000, "production"),
        (1_000_000, "critical"),
    ],
)
def test_a_granted_gang_gets_the_class_of_its_runs_priority_and_none_above(
    priority: int, expected: str
) -> None:
    for is_granted, label in ((False, "waits"), (True, expected)):
        order = make_queue(priority=-(2**31), granted_priority=priority, is_granted=is_granted)
        jobset = build(order, make_site(priority_classes=CLUSTER), PACKED).jobset
        assert jobset["metadata"]["labels"][PRIORITY_LABEL] == label
        jobset["metadata"]["uid"] = "u1"
        assert granted_class(read_job_set(Fields(jobset), ""), CLUSTER) == expected


@pytest.mark.parametrize(
    ("classes", "priority", "expected"),
    [
        ({}, 5, ""),
        ({"only": 7}, 5, "only"),
        ({"one": 7, "other": 7}, 5, "other"),
        ({"waits": 0, "trains": 500_000}, -1_000_000, "trains"),
    ],
)
def test_a_granted_gang_is_above_those_that_wait_where_it_can_be(
    classes: dict[str, int], priority: int, expected: str
) -> None:
    assert own_class(classes, priority) == expected


def test_a_gang_of_an_earlier_build_is_raised_as_one_of_todays() -> None:
    jobset = build(make_queue(), make_site(priority_classes=CLUSTER), PACKED).jobset
    jobset["metadata"]["uid"] = "u1"
    annotations = jobset["metadata"]["annotations"]
    del annotations[names.OWN]
    annotations[names.PREFIX + "granted-priority"] = "1000100"
    assert granted_class(read_job_set(Fields(jobset), ""), CLUSTER) == "normal"


def test_without_classes_there_is_no_label_and_it_is_said() -> None:
    manifest = build(make_queue(), make_site(priority_classes={}), PACKED)
    assert PRIORITY_LABEL not in manifest.jobset["metadata"]["labels"]
    assert any("priority class" in note for note in manifest.notes)


def test_every_object_says_whose_it_is() -> None:
    manifest = build(make_queue(), make_site(), PACKED)
    for thing in (manifest.jobset, manifest.enclave, template_of(manifest.jobset)):
        labels = thing["metadata"]["labels"]
        assert labels[names.TEAM] == "vision"
        assert labels[names.OWNER] == "ada"
        assert labels[names.RUN] == "one"
        assert labels[names.PLACEMENT] == "k3v9q0aa1b2c"
        assert labels[names.MANAGED_BY] == names.MANAGER
    assert names.read_told(manifest.jobset["metadata"]["annotations"]) == make_queue().labels
    # The job between them is found by its owner, and nobody looks for it by a label.
    (replicated,) = manifest.jobset["spec"]["replicatedJobs"]
    assert replicated["template"].keys() == {"spec"}


def test_the_enclave_goes_with_the_very_jobset_it_was_made_for() -> None:
    manifest = build(make_queue(), make_site(), PACKED)
    enclave = owned(manifest.enclave, manifest.jobset["metadata"]["name"], "uid-1")
    (owner,) = enclave["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("JobSet", "uid-1")
    assert owner["name"] == manifest.jobset["metadata"]["name"]
    assert "ownerReferences" not in manifest.enclave["metadata"]


def test_the_launcher_is_in_a_config_map_named_by_its_bytes() -> None:
    packed = pack()
    manifest = build(make_queue(), make_site(), packed)
    (carried,) = manifest.launcher["binaryData"].values()
    assert base64.b64decode(carried) == packed
    assert manifest.launcher["immutable"] is True
    assert len(json.dumps(manifest.launcher)) < 1 << 20
    (volume,) = [v for v in spec_of(manifest.jobset)["volumes"] if "configMap" in v]
    assert volume["configMap"]["name"] == manifest.launcher["metadata"]["name"]
    other = build(make_queue(), make_site(), packed + b"x")
    assert other.launcher["metadata"]["name"] != manifest.launcher["metadata"]["name"]


def test_the_same_order_gives_the_same_objects() -> None:
    assert build(make_queue(), make_site(), PACKED) == build(make_queue(), make_site(), PACKED)


def test_a_gang_is_restricted_by_default() -> None:
    manifest = build(make_queue(), make_site(), PACKED)
    template = template_of(manifest.jobset)
    assert forbidden(template) == []
    assert template["spec"]["automountServiceAccountToken"] is False
    # The cluster refuses to start an image that names no user, unless somebody does.
    assert template["spec"]["securityContext"]["runAsUser"] == 1000


def test_a_whole_profile_that_opens_nothing_is_restricted() -> None:
    profile = make_profile(
        volumes=[
            {"name": "data", "mount_path": "/data", "bucket": "training-data", "options": "ro"},
            {"name": "fast", "mount_path": "/fast", "scratch_bytes": 1 << 40},
            {"name": "ram", "mount_path": "/ram", "memory_bytes": 1 << 30},
        ],
        sidecars=[
            {
                "name": "exporter",
                "image": "ops/exporter:1",
                "cpu_millis": 100,
                "memory_bytes": 1 << 27,
                "volumes": ["fast"],
            }
        ],
        is_root_read_only=True,
    )
    queue = make_queue(secrets=(("hub", "HF_TOKEN", "/secrets/hub"),), internet=True)
    template = template_of(build(queue, make_site(profile=profile), PACKED).jobset)
    assert forbidden(template) == []
    assert template["metadata"]["annotations"]["gke-gcsfuse/volumes"] == "true"
    (sidecar,) = template["spec"]["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert [mount["name"] for mount in sidecar["volumeMounts"]] == ["fast"]
    mounts = {mount["mountPath"] for mount in template["spec"]["containers"][0]["volumeMounts"]}
    assert mounts >= {"/tmp", "/dev/shm", "/stores/eu", "/data", "/fast", "/ram", "/secrets/hub"}


WIDENED: dict[str, tuple[dict[str, Any], str]] = {
    "root": ({"runs_as_root": True}, "train runAsNonRoot"),
    "rights": ({"capabilities": ["IPC_LOCK"]}, "train adds IPC_LOCK"),
    "system calls": ({"is_seccomp_off": True}, "train seccompProfile"),
    "the machine's network": ({"is_on_host_network": True}, "hostNetwork"),
    "a directory of the machine": (
        {"volumes": [{"name": "nv", "mount_path": "/usr/local/nvidia", "host_path": "/home/nv"}]},
        "volume hostPath",
    ),
    "a privileged sidecar": (
        {
            "sidecars": [
                {
                    "name": "rxdm",
                    "image": "ops/rxdm:1",
                    "cpu_millis": 100,
                    "memory_bytes": 1 << 27,
                    "is_privileged": True,
                }
            ]
        },
        "rxdm privileged",
    ),
}


@pytest.mark.parametrize("case", WIDENED)
def test_what_a_profile_opens_is_forbidden_by_the_standard_and_said(case: str) -> None:
    fields, expected = WIDENED[case]
    manifest = build(make_queue(), make_site(profile=make_profile(**fields)), PACKED)
    assert expected in forbidden(template_of(manifest.jobset))
    assert any("does not admit it" in note for note in manifest.notes)


def test_what_a_run_opens_is_said() -> None:
    queue = make_queue(service_account_token=True, service_account="trainer", internet=True)
    manifest = build(queue, make_site(), PACKED)
    spec = spec_of(manifest.jobset)
    assert spec["automountServiceAccountToken"] is True
    assert spec["serviceAccountName"] == "trainer"
    assert any("as trainer" in note for note in manifest.notes)
    assert any("port 443" in note for note in manifest.notes)


def test_a_bucket_that_the_enclave_shuts_out_is_said() -> None:
    volumes = [{"name": "data", "mount_path": "/data", "bucket": "training-data"}]
    google = {"cidr": "199.36.153.8/30", "ports": [443]}

    def is_said(*, internet: bool = False, **profile: Any) -> bool:
        site = make_site(profile=make_profile(volumes=volumes, **profile))
        notes = build(make_queue(internet=internet), site, PACKED).notes
        return any("bucket training-data" in note for note in notes)

    assert is_said()
    assert not is_said(reach=[google])
    assert not is_said(internet=True)
    assert not any("bucket" in note for note in build(make_queue(), make_site(), PACKED).notes)


def test_what_a_rank_asks_for_is_what_it_may_use() -> None:
    queue = make_queue(gang={"cpu_millis": 90_500, "memory_bytes": 64 << 30})
    jobset = build(queue, make_site(), PACKED).jobset
    resources = trainer_of(jobset)["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"] == {
        "cpu": "90500m",
        "memory": str(64 << 30),
        "nvidia.com/gpu": "8",
    }
    (shm,) = [v for v in spec_of(jobset)["volumes"] if v["name"] == "broker-shm"]
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": str(32 << 30)}


def test_a_run_without_wishes_gets_the_profiles_bounds() -> None:
    profile = make_profile(
        cpu_millis=200_000,
        memory_bytes=1 << 40,
        shm_bytes=1 << 39,
        extra_resources={"rdma/hca": 8},
    )
    jobset = build(make_queue(), make_site(profile=profile), PACKED).jobset
    limits = trainer_of(jobset)["resources"]["limits"]
    assert limits["cpu"] == "200000m"
    assert limits["memory"] == str(1 << 40)
    assert limits["rdma/hca"] == "8"
    (shm,) = [v for v in spec_of(jobset)["volumes"] if v["name"] == "broker-shm"]
    assert shm["emptyDir"]["sizeLimit"] == str(1 << 39)


def test_a_gang_without_accelerators_asks_for_none() -> None:
    jobset = build(make_queue(gang={"accelerators_per_node": 0}), make_site(), PACKED).jobset
    assert "nvidia.com/gpu" not in trainer_of(jobset)["resources"]["limits"]
    assert "nvidia.com/gpu" not in [t["key"] for t in spec_of(jobset)["tolerations"]]


def test_flex_capacity_is_asked_for_as_long_as_the_run_wants_it_and_never_longer_than_given() -> (
    None
):
    def asked(**changes: Any) -> Any:
        jobset = build(make_queue(**changes), make_site(), PACKED).jobset
        return jobset["metadata"]["annotations"].get(FLEX_RUN_ANNOTATION)

    assert asked(capacity_type="FLEX", max_run_s=86_400.5) == "86400"
    assert asked(capacity_type="FLEX", max_run_s=20 * 86_400.0) == "604800"
    assert asked(capacity_type="FLEX") is None
    assert asked(capacity_type="SPOT", max_run_s=86_400.0) is None


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a tag can come to mean other bytes": ({"image": "lab/llm:latest"}, "not pinned"),
    "no image": ({"image": ""}, "names no image"),
    "a digest of a kind that is none": ({"image": "lab/llm@sha256:12"}, "NAME@sha256:DIGEST"),
    "no command": ({"command": ()}, "no command"),
    "no rank": ({"gang": {"ranks": 0}}, "1 to 4096 ranks"),
    "too many ranks": ({"gang": {"ranks": 5000}}, "1 to 4096 ranks"),
    "a placement that climbs": ({"placement": "../p"}, "part of a path"),
    "a variable that is none": ({"env": {"A B": "1"}}, "'A B' is no name"),
    "a NUL in a command": ({"command": ("sh", "a\0b")}, "NUL"),
    "half a character in a variable": ({"env": {"A": "\ud800"}}, "half a character"),
    "an environment beyond all bounds": ({"env": {"A": "x" * 300_000}}, "exceed"),
    "close together, on a flavor that knows no distances": (
        {"gang": {"topology": "REQUIRED"}},
        "stand close",
    ),
    "a secret under a name of the protocol": ({"secrets": (("s", "RANK", ""),)}, "RANK"),
    "a secret that nothing shows": ({"secrets": (("s", "", ""),)}, "neither"),
    "a secret over the launcher": ({"secrets": (("s", "", "/broker/launcher"),)}, "over /broker"),
    "a secret over the whole": ({"secrets": (("s", "", "/"),)}, "no absolute path"),
    "a secret over the store": ({"secrets": (("s", "", "/stores/eu"),)}, "is taken"),
    "two secrets in one place": ({"secrets": (("a", "A", ""), ("b", "A", ""))}, "another one"),
    "a secret's name that is none": ({"secrets": (("A_B", "A", ""),)}, "no name of a secret"),
    "a service account that is none": ({"service_account": "A B"}, "no name of a service"),
    "a queue that is none": ({"queue": "Ours!"}, "no name of a queue"),
    "labels beyond all bounds": ({"labels": {"owner": "x" * 4000}}, "labels exceed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_anything_is_created(case: str) -> None:
    changes, expected = REFUSED[case]
    with pytest.raises(CannotQueueError, match=expected):
        build(make_queue(**changes), make_site(), PACKED)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(CannotQueueError, match=r"no command.*not pinned"):
        build(make_queue(command=(), image="lab/llm:1"), make_site(), PACKED)


def test_a_name_that_is_taken_is_taken_by_what_nobody_carries_out() -> None:
    taken = occupant("k3v9q0aa1b2c", "runkey00000000000001", "training")
    ours = build(make_queue(), make_site(), PACKED).jobset
    assert taken["metadata"]["name"] == ours["metadata"]["name"]
    assert taken["spec"]["managedBy"] == "capacity-broker.dev/occupied"
    assert QUEUE_LABEL not in taken["metadata"]["labels"]
    assert taken["metadata"]["labels"].items() >= names.selector("k3v9q0aa1b2c").items()
    assert names.PART not in ours["metadata"]["labels"]


def test_the_digest_is_what_runs() -> None:
    trainer = trainer_of(build(make_queue(), make_site(), PACKED).jobset)
    assert trainer["image"] == IMAGE
    assert trainer["terminationMessagePolicy"] == "FallbackToLogsOnError"
