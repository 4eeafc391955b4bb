"""Profiles: read from a region's configuration, refused by name, and what they open said."""

import tomllib
from typing import Any

import pytest

from regions.kueue.profile_rules import ProfileError, read_profiles
from regions.kueue.profiles import Profiles, is_restricted, widenings
from tests.unit.regions.kueue.making import STORE, make_profile

CONFIG = """
[default]
store = "/stores/eu"
volumes = [{ name = "store", mount_path = "/stores/eu", claim = "checkpoints" }]
env = { NCCL_DEBUG = "WARN" }

[flavors.h100-mega]
runtime_class = "gvisor"
env = { NCCL_NET = "FasTrak", LD_LIBRARY_PATH = "/usr/local/nvidia/lib64" }
annotations = { "networking.gke.io/default-interface" = "eth0" }
capabilities = ["IPC_LOCK"]
volumes = [
  { name = "store", mount_path = "/stores/eu", claim = "checkpoints" },
  { name = "nvidia", mount_path = "/usr/local/nvidia", host_path = "/home/kubernetes/bin/nvidia" },
]
[[flavors.h100-mega.sidecars]]
name = "tcpxo-daemon"
image = "example/tcpgpudmarxd:1"
cpu_millis = 1000
memory_bytes = 1073741824
volumes = ["nvidia"]
is_privileged = true
"""


def read(text: str, *, allows_host_paths: bool = True) -> Profiles:
    """Read profiles from TOML."""
    return read_profiles(tomllib.loads(text), allows_host_paths=allows_host_paths)


def test_a_flavors_table_lies_over_the_default() -> None:
    profiles = read(CONFIG)
    mega, other = profiles.of("h100-mega"), profiles.of("h100")
    assert other is profiles.default
    assert mega.store == "/stores/eu"
    assert "NCCL_DEBUG" not in mega.env
    assert mega.env["NCCL_NET"] == "FasTrak"
    assert widenings(other) == ()
    assert is_restricted(other)


def test_what_is_opened_is_said_in_sentences() -> None:
    mega = read(CONFIG).of("h100-mega")
    assert not is_restricted(mega)
    refused = "A namespace under pod-security: restricted does not admit it."
    assert widenings(mega) == (
        f"Its processes keep the rights IPC_LOCK. {refused}",
        f"Its processes write /home/kubernetes/bin/nvidia of their machine. {refused}",
        f"tcpxo-daemon beside it has every right on its machine. {refused}",
    )


def test_a_way_out_is_said_and_admitted() -> None:
    profile = make_profile(reach=[{"cidr": "10.9.0.0/16", "ports": [6379]}])
    assert widenings(profile) == ("Its processes reach 10.9.0.0/16, ports 6379.",)
    assert is_restricted(profile)


def test_host_paths_are_refused_unless_the_region_allows_them() -> None:
    with pytest.raises(ProfileError, match=r"volumes\.nvidia\.host_path: .* allows_host_paths"):
        read(CONFIG, allows_host_paths=False)


SIDECAR = {"name": "x", "image": "ops/x:1", "cpu_millis": 1, "memory_bytes": 1}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"shm_gb": 3}, "shm_gb"),
    "an unknown field of a volume": ({"volumes": [{**STORE, "nfs": "x"}]}, "nfs"),
    "a value of the wrong kind": ({"shm_bytes": "lots"}, "shm_bytes"),
    "a size of nothing": ({"shm_bytes": 0}, "shm_bytes"),
    "a volume of no kind": ({"volumes": [{"name": "a", "mount_path": "/a"}]}, "just one of"),
    "a volume of two kinds": (
        {"volumes": [{"name": "a", "mount_path": "/a", "claim": "c", "bucket": "buc"}]},
        "just one of",
    ),
    "a volume over the launcher": (
        {"volumes": [{"name": "a", "mount_path": "/broker", "claim": "c"}]},
        "over /broker",
    ),
    "a volume that climbs": (
        {"volumes": [{"name": "a", "mount_path": "/a/../broker", "claim": "c"}]},
        "no absolute path",
    ),
    "a host path that climbs": (
        {"volumes": [{"name": "a", "mount_path": "/a", "host_path": "/var/../etc"}]},
        "host_path",
    ),
    "a mount point of two": (
        {"volumes": [{"name": "a", "mount_path": "/stores/eu", "claim": "c"}]},
        "mounted 2 times",
    ),
    "a name of two": (
        {"volumes": [{"name": "store", "mount_path": "/b", "claim": "c"}]},
        "there 2 times",
    ),
    "a bucket that is none": (
        {"volumes": [{"name": "a", "mount_path": "/a", "bucket": "No/Bucket"}]},
        "no name of a bucket",
    ),
    "a variable of the protocol": ({"env": {"RANK": "0"}}, r"env\.RANK"),
    "a variable of the broker": ({"env": {"BROKER_STORE": "/"}}, r"env\.BROKER_STORE"),
    "an annotation of Kueue": (
        {"annotations": {"kueue.x-k8s.io/podset-required-topology": "a"}},
        "is for the cluster",
    ),
    "an annotation of Kubernetes": (
        {"annotations": {"batch.kubernetes.io/job-completion-index": "1"}},
        "is for the cluster",
    ),
    "a label that is none": ({"node_selector": {"a b": "c"}}, "no name of a label"),
    "a network that is none": ({"reach": [{"cidr": "10.0.0.1/24"}]}, "no network"),
    "a sidecar that takes the training's name": (
        {"sidecars": [{**SIDECAR, "name": "train"}]},
        "name is taken",
    ),
    "a sidecar that is shown what is not there": (
        {"sidecars": [{**SIDECAR, "volumes": ["no"]}]},
        "no volume 'no'",
    ),
    "a sidecar without bounds": (
        {"sidecars": [{"name": "x", "image": "ops/x:1"}]},
        "cpu_millis",
    ),
    "accelerators, which a run asks for": (
        {"extra_resources": {"nvidia.com/gpu": 8}},
        "what a run asks for",
    ),
    "a user that is root": ({"user": 0}, "user"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_by_name(case: str) -> None:
    fields, expected = WRONG[case]
    with pytest.raises(ProfileError, match=expected):
        make_profile(**fields)


def test_a_store_in_no_volume_is_refused() -> None:
    raw = {"default": {"store": "/stores/us", "volumes": [STORE]}}
    with pytest.raises(ProfileError, match="store: /stores/us is in none"):
        read_profiles(raw, allows_host_paths=False)


def test_a_store_that_nobody_can_write_is_refused() -> None:
    raw = {"default": {"store": "/stores/eu", "volumes": [{**STORE, "is_read_only": True}]}}
    with pytest.raises(ProfileError, match="is_read_only"):
        read_profiles(raw, allows_host_paths=False)


def test_a_store_may_lie_within_a_volume() -> None:
    raw = {"default": {"store": "/stores/eu/broker", "volumes": [STORE]}}
    assert read_profiles(raw, allows_host_paths=False).default.store == "/stores/eu/broker"


@pytest.mark.parametrize("raw", [None, [], {}, {"default": 3}, {"default": {}, "flavours": {}}])
def test_what_are_no_profiles_is_refused(raw: object) -> None:
    with pytest.raises(ProfileError):
        read_profiles(raw, allows_host_paths=True)
