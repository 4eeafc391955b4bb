"""A project's GPU quota, from what two services tell of it."""

from __future__ import annotations

from typing import Any

import pytest

from regions.gcp.quota import PREEMPTIBLE, STANDARD, UNLIMITED, Quota, quotas

REGION = "us-central1"


def info(quota_id: str, *rows: dict[str, Any]) -> dict[str, Any]:
    return {"quotaId": quota_id, "dimensionsInfos": list(rows)}


def row(value: str | None, region: str = "", family: str = "") -> dict[str, Any]:
    dimensions = {"region": region} if region else {}
    if family:
        dimensions["gpu_family"] = family
    details = {} if value is None else {"value": value}
    return {"dimensions": dimensions, "details": details, "applicableLocations": [REGION, "x"]}


def told(metric: str, limit: object, usage: object) -> dict[str, Any]:
    return {"name": REGION, "quotas": [{"metric": metric, "limit": limit, "usage": usage}]}


def test_spot_and_flex_draw_on_one_quota_and_a_reservation_on_none() -> None:
    found = quotas({}, [told("PREEMPTIBLE_NVIDIA_H100_GPUS", 64.0, 16.0)], [])
    spot = found.find(REGION, "H100", "SPOT")
    assert spot == Quota(limit=64, used=16, source="Compute Engine")
    assert spot.room == 48
    assert found.find(REGION, "H100", "FLEX") == spot
    assert found.find(REGION, "H100", "ON_DEMAND") is None
    assert found.find(REGION, "H100", "RESERVED") is None


@pytest.mark.parametrize(("capacity_type", "room"), [("SPOT", 3), ("FLEX", 0), ("ON_DEMAND", 3)])
def test_without_a_preemptible_quota_spot_draws_on_the_standard_one(
    capacity_type: str, room: int
) -> None:
    region = told("NVIDIA_L4_GPUS", 8, 5)
    region["quotas"].append({"metric": "PREEMPTIBLE_NVIDIA_L4_GPUS", "limit": 0, "usage": 0})
    found = quotas({}, [region], []).find(REGION, "L4", capacity_type)
    assert found is not None
    assert found.room == room


def test_newer_accelerators_are_told_by_cloud_quotas_alone_and_their_use_is_unknown() -> None:
    family = "GPUS-PER-GPU-FAMILY-per-project-region"
    found = quotas({}, [], [info(family, row("8", family="NVIDIA_H100"))])
    assert found.by_key == {
        (region, "H100", STANDARD): Quota(limit=8, used=None, source="Cloud Quotas")
        for region in (REGION, "x")
    }


def test_a_row_of_one_region_goes_before_the_row_of_all() -> None:
    one = "PREEMPTIBLE-NVIDIA-A100-80GB-GPUS-per-project-region"
    rows = [row("16", region=REGION), row("1")]
    for each in (rows, rows[::-1]):
        found = quotas({}, [], [info(one, *each)]).by_key
        limits = {key: quota.limit for key, quota in found.items()}
        assert limits == {
            (REGION, "A100-80GB", PREEMPTIBLE): 16,
            ("x", "A100-80GB", PREEMPTIBLE): 1,
        }


def test_compute_goes_before_cloud_quotas_for_it_tells_the_use() -> None:
    limits = [info("NVIDIA-L4-GPUS-per-project-region", row("8"))]
    found = quotas({}, [told("NVIDIA_L4_GPUS", 8, 5)], limits)
    assert found.by_key[REGION, "L4", STANDARD].room == 3


def test_a_limit_that_compute_does_not_tell_leaves_the_other() -> None:
    limits = [info("NVIDIA-L4-GPUS-per-project-region", row("8"))]
    found = quotas({}, [told("NVIDIA_L4_GPUS", None, 5)], limits)
    assert found.by_key[REGION, "L4", STANDARD] == Quota(limit=8, used=None, source="Cloud Quotas")


def test_the_limit_over_all_regions_binds_too() -> None:
    project = {"quotas": [{"metric": "GPUS_ALL_REGIONS", "limit": 16, "usage": 15}]}
    found = quotas(project, [told("NVIDIA_L4_GPUS", 8, 0)], [])
    least = found.find(REGION, "L4", "ON_DEMAND")
    assert least is not None
    assert least.room == 1
    assert found.find(REGION, "T4", "ON_DEMAND") == least


@pytest.mark.parametrize("value", [None, "", "many", "-7", "inf", "nan"])
def test_a_limit_that_nobody_tells_is_unknown_and_not_zero(value: str | None) -> None:
    one = "PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region"
    assert quotas({}, [], [info(one, row(value))]).find(REGION, "H100", "SPOT") is None
    found = quotas({}, [told("NVIDIA_L4_GPUS", value, 3)], [])
    assert found.by_key[REGION, "L4", STANDARD].room is None


def test_how_many_there_can_be_at_once_is_the_least_of_the_limits_that_bind() -> None:
    project = {"quotas": [{"metric": "GPUS_ALL_REGIONS", "limit": 16, "usage": 15}]}
    found = quotas(project, [told("NVIDIA_L4_GPUS", 8, 8)], [])
    assert found.most(REGION, "L4", "ON_DEMAND") == 8
    assert found.most(REGION, "T4", "ON_DEMAND") == 16
    assert found.most(REGION, "L4", "RESERVED") is None
    unbound = [info("PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region", row("-1"))]
    assert quotas({}, [], unbound).most(REGION, "H100", "FLEX") is None


def test_no_limit_is_a_limit_of_its_own() -> None:
    one = "PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region"
    found = quotas({}, [], [info(one, row("-1"))])
    assert found.by_key[REGION, "H100", PREEMPTIBLE].limit == UNLIMITED


@pytest.mark.parametrize(
    "hostile",
    [
        {"quotaId": 7, "dimensionsInfos": "no"},
        {"quotaId": "NVIDIA-L4-GPUS-per-project-region", "dimensionsInfos": [1, None, {}]},
        info("NVIDIA-L4-GPUS-per-project-region", {"dimensions": [], "details": 3}),
        info("COMMITTED-NVIDIA-L4-GPUS-per-project-region", row("8")),
        info("NVIDIA-L4-VWS-GPUS-per-project-region", row("8")),
    ],
)
def test_what_is_not_of_its_form_tells_nothing(hostile: dict[str, Any]) -> None:
    found = quotas({"quotas": 3}, [{"name": [], "quotas": [None, {"limit": {}}]}], [hostile])
    assert (found.by_key, found.overall) == ({}, None)
