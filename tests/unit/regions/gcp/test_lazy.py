"""A broker without Google imports none of its clients."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.house.tree import ROOT

HEAVY = ("google.auth", "google.cloud", "google.api_core", "proto", "requests")


def imported(module: str) -> set[str]:
    """Returns which heavy packages an import of a module brings with it."""
    script = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=ROOT,
    )
    names = json.loads(found.stdout)
    return {each for each in HEAVY if any(n == each or n.startswith(f"{each}.") for n in names)}


@pytest.mark.parametrize(
    "module",
    [
        "broker.daemon",
        "regions.gcp.prices.keeping",
        "regions.gcp.prices.shipped",
        "regions.gcp.fleet.hearing",
        "regions.gcp.compute",
    ],
)
def test_no_client_of_google_comes_with(module: str) -> None:
    assert imported(module) == set()


def test_the_files_that_say_so_do_bring_them() -> None:
    assert imported("regions.gcp.channels") == set(HEAVY)
