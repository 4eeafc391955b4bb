"""The launcher's environment is read once, and what makes no sense is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.sdk.training import Grant, GrantError
from broker.sdk.training.bucket import BucketPlace
from broker.sdk.training.wire import Door

REACHABLE = "it must be a file:// URI of this machine, or gs://"


def test_all_that_a_launcher_says() -> None:
    environ = {
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "BROKER_RUN": "teams/optics/runs/prism",
        "BROKER_EPOCH": "4",
        "BROKER_CHECKPOINT_URI": "file:///stores/eu%20west/e4/checkpoints",
        "BROKER_RESUME_FROM": "file://localhost/stores/us/e3/checkpoints/step-40",
        "BROKER_RESUME_DIGEST": "a" * 64,
        "BROKER_DIR": "/private/5",
    }
    assert Grant.read(environ, local_dir=Path("here")) == Grant(
        run="teams/optics/runs/prism",
        epoch=4,
        rank=5,
        world_size=8,
        local_rank=1,
        checkpoints=Path("/stores/eu west/e4/checkpoints"),
        resume_from=Path("/stores/us/e3/checkpoints/step-40"),
        resume_digest="a" * 64,
        private_dir=Path("/private/5"),
    )


def test_a_bucket_is_reached_as_the_launcher_reaches_it() -> None:
    environ = {
        "BROKER_CHECKPOINT_URI": "gs://east/broker/runs/r/e1/checkpoints",
        "BROKER_RESUME_FROM": "gs://east/broker/runs/r/e0/checkpoints/step-40",
        "BROKER_STORE_ENDPOINT": "https://storage.example",
        "BROKER_STORE_TOKENS": "/var/token",
    }
    grant = Grant.read(environ, local_dir=Path("here"))
    door = Door(endpoint="https://storage.example", tokens="/var/token")
    assert grant.checkpoints == BucketPlace("east", "broker/runs/r/e1/checkpoints", door)
    assert str(grant.resume_from) == environ["BROKER_RESUME_FROM"]


def test_without_a_launcher_the_script_is_alone() -> None:
    grant = Grant.read({"BROKER_RESUME_FROM": ""}, local_dir=Path("here"))
    assert grant == Grant(
        run="",
        epoch=0,
        rank=0,
        world_size=1,
        local_rank=0,
        checkpoints=Path.cwd() / "here",
        resume_from=None,
        resume_digest="",
        private_dir=None,
    )
    assert not grant.is_brokered


@pytest.mark.parametrize(
    ("environ", "complaint"),
    [
        ({"RANK": "one"}, "RANK is 'one', which is not a whole number"),
        ({"RANK": "-1"}, "RANK is -1, but must be 0 or more"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE is 0, but must be 1 or more"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK is 2, but WORLD_SIZE is 2"),
        ({"BROKER_EPOCH": "4.5"}, "BROKER_EPOCH is '4.5', which is not a whole number"),
        (
            {"BROKER_CHECKPOINT_URI": "s3://bucket/x"},
            f"BROKER_CHECKPOINT_URI is 's3://bucket/x'; {REACHABLE}",
        ),
        (
            {"BROKER_RESUME_FROM": "file://elsewhere/x"},
            f"BROKER_RESUME_FROM is 'file://elsewhere/x'; {REACHABLE}",
        ),
        ({"BROKER_RESUME_FROM": "x/y"}, "BROKER_RESUME_FROM is 'x/y'; its path must be absolute"),
    ],
)
def test_a_value_that_cannot_be_meant_is_named(environ: dict[str, str], complaint: str) -> None:
    with pytest.raises(GrantError) as caught:
        Grant.read(environ, local_dir=Path("here"))
    assert str(caught.value) == complaint
