"""What the pages point at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.tree import ROOT, text_of, written_files

LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


def test_every_link_in_a_page_leads_to_a_file() -> None:
    findings = {path: missing(ROOT / path, text_of(path)) for path in written_files(".md")}
    assert {path: links for path, links in findings.items() if links} == {}


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("[a](nowhere.md)", ["nowhere.md"]),
        ("[a](nowhere.md#part)", ["nowhere.md"]),
        ("[a](README.md) [b](https://example.org/x) [c](#part)", []),
    ],
)
def test_a_link_to_nowhere_is_found(page: str, expected: list[str]) -> None:
    assert missing(ROOT / "tests" / "page.md", page) == expected


def missing(page: Path, text: str) -> list[str]:
    """Returns the relative links of a page that lead to nothing."""
    return [link for link in LINK.findall(text) if not (page.parent / link).exists()]
