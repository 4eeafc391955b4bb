"""What stands at the top of the project is fixed, and the README says how to start."""

from __future__ import annotations

from tests.house.tree import project_files, text_of

FOLDERS = {"proto", "broker", "regions", "replicator", "tests", "deploy"}
FILES = {"pyproject.toml", "README.md", "Makefile", "LICENSE"}


def test_the_top_level_is_fixed() -> None:
    top = {path.split("/")[0] for path in project_files()}
    assert {name for name in top if not name.startswith(".")} <= FOLDERS | FILES


def test_the_readme_names_the_two_commands() -> None:
    readme = text_of("README.md")
    assert [command for command in ("make demo", "make test") if command not in readme] == []
