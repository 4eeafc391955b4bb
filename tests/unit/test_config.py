"""brokerd's configuration: every field documented, everything else refused by name."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import config
from broker.config import Config, ConfigError, parse

CASES = {
    "an unknown field is refused by name": (b"[server]\nadress = 'x'", "server: .*adress"),
    "an unknown section is refused by name": (b"[sever]\n", "sever"),
    "a value out of range is refused by its path": (
        b"[data]\nretention_days = -1",
        r"data\.retention_days",
    ),
    "a value of another type is refused by its path": (
        b"[loops]\nplace_s = 'x'",
        r"loops\.place_s",
    ),
    "infinity is no pause": (b"[loops]\nplace_s = inf", r"loops\.place_s"),
    "an unknown word is refused": (b"[log]\nlevel = 'loud'", r"log\.level"),
    "a cluster without its world is refused": (
        b"[[clusters]]\ndirectory = '/d'",
        r"clusters\[0\].*world",
    ),
    "an unknown kind of cluster is refused": (
        b"[[clusters]]\nkind = 'gke'\ndirectory = '/d'\nworld = '/w'",
        r"clusters\[0\]\.kind",
    ),
    "a relative path is refused": (
        b"[[clusters]]\ndirectory = 'd'\nworld = '/w'",
        r"clusters\[0\]\.directory",
    ),
    "two clusters cannot share a directory": (
        b"[[clusters]]\ndirectory='/d'\nworld='/w'\n[[clusters]]\ndirectory='/d'\nworld='/v'",
        "one directory",
    ),
    "text that is not TOML is refused": (b"x = ", "not TOML"),
    "bytes that are not text are refused": (b"\xff\xfe", "UTF-8"),
}


@pytest.mark.parametrize(("text", "words"), CASES.values(), ids=CASES.keys())
def test_a_bad_file_is_refused_in_words(text: bytes, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(text, "brokerd.toml")


def test_the_printed_file_is_the_default_and_names_every_field() -> None:
    printed = config.commented()
    assert parse(printed.encode(), "printed") == Config()
    for field in config.FIELDS:
        assert f"# {field.rpartition('.')[2]} = " in printed


def test_every_field_is_documented() -> None:
    sections = {
        f.name: config.Cluster if f.name == "clusters" else type(f.default)
        for f in msgspec.structs.fields(Config)
    }
    found = {
        f"{name}{'[]' if name == 'clusters' else ''}.{field.name}"
        for name, struct in sections.items()
        for field in msgspec.structs.fields(struct)
    }
    assert found == set(config.FIELDS)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8")))
def test_any_bytes_are_a_configuration_or_a_config_error(data: bytes) -> None:
    assert _taken_or_refused(data).startswith(("taken", "x"))


@given(
    section=st.sampled_from(["server", "data", "log", "metrics", "loops"]),
    field=st.sampled_from(sorted(name.rpartition(".")[2] for name in config.FIELDS)),
    value=st.sampled_from(
        ["1", "-1", "1e400", "nan", "true", "''", "'x'", "[]", "{}", "1979-05-27"]
    ),
)
def test_any_value_of_any_field_is_taken_or_refused_by_its_path(
    section: str, field: str, value: str
) -> None:
    told = _taken_or_refused(f"[{section}]\n{field} = {value}\n".encode())
    assert told == "taken" or section in told


def _taken_or_refused(data: bytes) -> str:
    try:
        parse(data, "x")
    except ConfigError as error:
        return str(error)
    return "taken"
