"""Which broker is asked: what is said, then the environment, then the file, then the default."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.sdk.errors import SettingsError
from broker.sdk.settings import find


def wrote(home: Path, text: str) -> dict[str, str]:
    file = home / ".config" / "broker" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return {"HOME": str(home), "USER": "ann"}


def test_each_source_gives_way_to_the_one_before(tmp_path: Path) -> None:
    env = wrote(tmp_path, 'server = "unix:/file"\nteam = "filed"\n')
    found = find(environ=env)
    assert (found.server, found.team, found.user) == ("unix:/file", "filed", "ann")
    assert found.source == str(tmp_path / ".config/broker/config.toml")
    env |= {"BROKER_SERVER": "unix:/env", "BROKER_TEAM": "vision", "BROKER_USER": "bob"}
    found = find(environ=env)
    assert (found.server, found.team, found.user) == ("unix:/env", "vision", "bob")
    found = find(server="localhost:1", team="t", user="u", environ=env)
    assert (found.server, found.team, found.user) == ("localhost:1", "t", "u")
    assert found.source == "--server"


def test_without_any_word_it_is_the_default_socket(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert find(environ=env).server == f"unix:{tmp_path}/.local/state/broker/brokerd.sock"
    env["XDG_STATE_HOME"] = str(tmp_path / "state")
    assert find(environ=env).server == f"unix:{tmp_path}/state/broker/brokerd.sock"
    runtime = tmp_path / "run" / "broker" / "brokerd.sock"
    env["XDG_RUNTIME_DIR"] = str(tmp_path / "run")
    assert find(environ=env).server == f"unix:{tmp_path}/state/broker/brokerd.sock"
    runtime.parent.mkdir(parents=True)
    runtime.touch()
    assert find(environ=env).server == f"unix:{runtime}"
    assert (find(environ=env).team, find(environ=env).source) == ("default", "the default socket")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('sever = "x"', "sever: is not known; these are: server, team, user"),
        ("server = 5", "server: must be a text"),
        ("server", "is not TOML"),
        ("a = " + "[" * 5000, "is not TOML"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        find(environ=wrote(tmp_path, text))


def test_a_login_that_no_header_can_hold_is_mended(tmp_path: Path) -> None:
    assert find(environ={"HOME": str(tmp_path), "USER": "änn b"}).user == "_nn_b"


@pytest.mark.parametrize(
    "address",
    ["banana", "unix:relative/brokerd.sock", "unix:", "localhost", "localhost:", "h:70000", "a b:1",
     "unix:/a\nb", "https://host:1", ":1", "\x1b[2J:1"],
)  # fmt: skip
@pytest.mark.parametrize("how", ["--server", "BROKER_SERVER"])
def test_an_address_of_no_known_form_names_the_forms(
    tmp_path: Path, address: str, how: str
) -> None:
    env = {"HOME": str(tmp_path)} | ({how: address} if how == "BROKER_SERVER" else {})
    with pytest.raises(SettingsError, match="is neither unix:/PATH nor HOST:PORT") as caught:
        find(server=address if how == "--server" else "", environ=env)
    assert caught.value.field == how
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("address", ["unix:/a/b", "unix:///a/b", "host.example:1", "[::1]:5080"])
def test_an_address_of_a_known_form_is_taken_as_it_is(tmp_path: Path, address: str) -> None:
    assert find(server=address, environ={"HOME": str(tmp_path)}).server == address


def test_a_name_that_no_header_can_hold_is_refused_where_it_was_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="BROKER_USER: 'a\\\\nb' is not printable ASCII"):
        find(environ={"HOME": str(tmp_path), "BROKER_USER": "a\nb"})
    with pytest.raises(SettingsError, match="user: '\\\\xe4nn' is not printable ASCII"):
        find(environ=wrote(tmp_path, 'user = "änn"'))
