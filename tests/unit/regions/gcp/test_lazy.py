"""A broker without Google imports none of its clients."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.house.tree import ROOT

HEAVY = ("google.api_core", "google.cloud", "proto")
TELL = "print(json.dumps(sorted(sys.modules)))"
LIGHT = (
    "broker.daemon",
    "regions.gcp.compute",
    "regions.gcp.fleet.hearing",
    "regions.gcp.prices.keeping",
    "regions.gcp.prices.shipped",
    "regions.gcp.survey",
    "regions.gcp.watch",
)


def imported(*modules: str) -> set[str]:
    """Returns which heavy packages an import of some modules brings with it."""
    found = subprocess.run(
        [sys.executable, "-c", f"import json, sys, {', '.join(modules)}\n{TELL}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=ROOT,
    )
    names = json.loads(found.stdout)
    return {each for each in HEAVY if any(n == each or n.startswith(f"{each}.") for n in names)}


def test_no_client_of_google_comes_with_what_needs_none() -> None:
    assert imported(*LIGHT) == set()


def test_the_files_that_say_so_do_bring_them() -> None:
    assert imported("regions.gcp.channels") == set(HEAVY)
