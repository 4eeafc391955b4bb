"""The cloud's advice: how it is asked for, read, and kept from turning choices over."""

from __future__ import annotations

from regions.gcp.advice import STEP, Advice, question, read_advice, settled


def test_a_choice_is_not_turned_over_by_noise() -> None:
    assert settled(None, 0.54) == 0.54
    assert settled(0.54, 0.54 + STEP - 0.01) == 0.54
    assert settled(0.54, 0.81) == 0.81


def test_advice_is_read_zone_by_zone() -> None:
    shard = {
        "zone": "projects/p/zones/us-central1-a",
        "machineType": "a3-highgpu-8g",
        "instanceCount": 2,
        "provisioningModel": "SPOT",
    }
    message = {
        "recommendations": [
            {"scores": {"obtainability": 0.9, "estimatedUptime": "3600s"}, "shards": [shard]},
            {"scores": {"obtainability": 7}, "shards": [shard]},
            {"scores": {"obtainability": True}, "shards": [shard]},
            {"scores": {"obtainability": 0.5}, "shards": [{"instanceCount": -1}, "odd"]},
            *({"scores": None}, 3),
        ]
    }
    assert read_advice(message) == (
        Advice(
            zone="us-central1-a",
            machine="a3-highgpu-8g",
            model="SPOT",
            obtainability=0.9,
            count=2,
        ),
    )
    assert read_advice({"recommendations": "none"}) == ()


def test_a_gang_is_asked_for_in_one_zone() -> None:
    asked = question("a3-highgpu-8g", 4, "SPOT")
    assert asked["size"] == 4
    assert asked["distributionPolicy"] == {"targetShape": "ANY_SINGLE_ZONE"}
    assert asked["instanceProperties"] == {"scheduling": {"provisioningModel": "SPOT"}}
