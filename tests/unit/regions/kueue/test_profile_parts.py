"""What a profile lays over a gang, in words; of what may be secret the name alone."""

import pytest

from regions.kueue.profile_parts import INTERFACES, parts
from tests.unit.regions.kueue.making import make_profile

GKE, MULTUS = INTERFACES
STORE = ("mount", "/stores/eu: claim checkpoints, the region's store is in it")


def test_a_profile_that_lays_nothing_but_the_store_says_so() -> None:
    assert list(parts(make_profile())) == [STORE]


def test_each_thing_is_told() -> None:
    profile = make_profile(
        volumes=[
            {"name": "data", "mount_path": "/data", "bucket": "corpora", "is_read_only": True},
            {"name": "token", "mount_path": "/token", "secret": "hub"},
            {"name": "tmp", "mount_path": "/scratch", "scratch_bytes": 3 << 40},
            {"name": "ram", "mount_path": "/ram", "memory_bytes": 512 << 20},
            {"name": "libs", "mount_path": "/libs", "host_path": "/home/kubernetes/bin"},
        ],
        shm_bytes=16 << 30,
        env={"NCCL_SOCKET_IFNAME": "eth1", "NCCL_DEBUG": "s3cret"},
        sidecars=[
            {
                "name": "rxdm",
                "image": "registry.example/rxdm@sha256:" + "0" * 64,
                "env": {"TOKEN": "s3cret"},
                "cpu_millis": 100,
                "memory_bytes": 1 << 20,
            }
        ],
        annotations={
            GKE: '[{"interfaceName": "eth1", "network": "vpc1"}, {"interfaceName": "eth2"}]',
            "devices.gke.io/container": "s3cret",
        },
        extra_resources={"networking.gke.io.networks/vpc1": 1},
        cpu_millis=1500,
        memory_bytes=2000,
        node_selector={"pool": "a"},
        tolerations=[{"key": "team", "value": "vision"}],
        topology_level="cloud.google.com/gce-topology-block",
        preemption_window_s=25,
        runtime_class="gvisor",
        image_pull_secrets=["pull-b", "pull-a"],
    )
    told = list(parts(profile))
    assert told == [
        STORE,
        ("mount", "/data: bucket corpora, by gcsfuse, only read"),
        ("mount", "/token: secret hub, only read"),
        ("mount", "/scratch: 3 TiB of the machine's disk"),
        ("mount", "/ram: 512 MiB of memory"),
        ("mount", "/libs: /home/kubernetes/bin of the machine"),
        ("mount", "/dev/shm: 16 GiB of memory"),
        ("environment", "NCCL_DEBUG, NCCL_SOCKET_IFNAME"),
        ("sidecar", f"rxdm: registry.example/rxdm@sha256:{'0' * 64}, with TOKEN"),
        ("interface", "eth1 in vpc1, eth2 in its network"),
        ("annotation", "devices.gke.io/container"),
        ("resource", "1 networking.gke.io.networks/vpc1"),
        ("size", "1.5 CPUs and 1.953 KiB of memory for each process of a run that asks for none"),
        ("machine", "with label pool=a"),
        ("machine", "with taint team=vision, too"),
        (
            "machine",
            "close together by cloud.google.com/gce-topology-block, where a run wishes it",
        ),
        ("machine", "taken back with 25 s of notice"),
        ("machine", "with runtime class gvisor"),
        ("pull", "images with the secrets pull-a, pull-b"),
    ]
    assert "s3cret" not in str(told)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (MULTUS, '[{"name": "rdma-0", "interface": "net1"}]', "net1 in rdma-0"),
        (MULTUS, "rdma-0,rdma-1", f"as {MULTUS} says"),
        (GKE, "[" * 4_000, f"as {GKE} says"),
        (GKE, "[]", f"as {GKE} says"),
    ],
)
def test_interfaces_are_told_as_far_as_they_can_be_read(key: str, value: str, told: str) -> None:
    found = parts(make_profile(annotations={key: value}))
    assert [words for kind, words in found if kind == "interface"] == [told]
