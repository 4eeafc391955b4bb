"""The launcher as a program: its settings, its one file, its exit statuses."""

import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from regions.launcher import envelope
from regions.launcher.exchange import Exchange, Progress
from regions.launcher.exits import BAD_CONFIGURATION, OF_CAUSE, exit_status
from regions.launcher.pack import pack
from regions.launcher.rules import Cause
from regions.launcher.settings import BadSettings, read_settings

ROOT = Path(__file__).parents[4]
GOOD = {
    "BROKER_STORE": "file:///store",
    "BROKER_RUN_KEY": "run",
    "BROKER_PLACEMENT": "p1",
    "BROKER_WORK_DIR": "/work",
    "RANK": "1",
    "WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.1",
    "BROKER_GATE_POLL_S": "0.5",
}


def test_settings_are_read_and_only_the_clusters_own_are_passed_on() -> None:
    settings = read_settings(GOOD, ("python3", "train.py"))
    assert (settings.store, settings.rank, settings.world_size) == ("/store", 1, 2)
    assert (settings.gate_poll_s, settings.gate_timeout_s) == (0.5, 3600.0)
    assert settings.passed_on == {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1"}
    assert settings.loss_field == "loss"
    named = read_settings({**GOOD, "BROKER_LOSS_FIELD": "train/loss"}, ("true",))
    assert (named.loss_field, named.passed_on) == ("train/loss", settings.passed_on)


def test_what_opens_a_bucket_is_not_passed_on() -> None:
    told = {
        "BROKER_STORE": "gs://bucket/broker/",
        "BROKER_STORE_TOKENS": "/run/token",
        "BROKER_STORE_ENDPOINT": "http://127.0.0.1:1",
    }
    settings = read_settings({**GOOD, **told}, ("true",))
    assert (settings.store, settings.store_tokens, settings.store_endpoint) == (
        "gs://bucket/broker",
        "/run/token",
        "http://127.0.0.1:1",
    )
    assert settings.passed_on.keys() & told.keys() == set()


def test_a_packed_launcher_starts_without_what_writes_classes(tmp_path: Path) -> None:
    program = tmp_path / "launcher.pyz"
    program.write_bytes(pack())
    code = (
        f"import sys; sys.path.insert(0, {str(program)!r}); import regions.launcher.__main__;"
        "print(sorted({'dataclasses', 'inspect'} & set(sys.modules)))"
    )
    run = [sys.executable, "-I", "-S", "-c", code]
    told = subprocess.run(run, capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout == "[]\n"


def test_a_launcher_on_a_directory_starts_without_what_a_bucket_takes() -> None:
    code = (
        "import sys, regions.launcher.__main__;"
        "print(sorted({'http.client', 'ssl', 'random'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"


def test_what_stands_in_one_variable_is_read_as_if_each_had_its_own() -> None:
    own = {"RANK": "1", "HOME": "/root", "MINE": "yes"}
    told = {name: value for name, value in GOOD.items() if name != "RANK"} | {"HOME": "/work"}
    settings = read_settings({**own, envelope.NAME: envelope.closed(told)}, ("true",))
    assert settings == read_settings({**own, **told}, ("true",))
    assert settings.passed_on == {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "10.0.0.1",
        "HOME": "/work",
        "MINE": "yes",
    }


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "null", "[]", '{"A": 1}', '{"A": null}', '{"": "x"}', '{"A=B": "x"}'),
        *('{"A": "\\u0000"}', '{"A": "\\ud800"}', "[" * 60_000, '{"WORLD_SIZE": "2"'),
    ],
)
def test_one_variable_that_holds_no_variables_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(BadSettings, match=envelope.NAME):
        read_settings({**GOOD, envelope.NAME: text}, ("true",))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BROKER_STORE", ""),
        ("BROKER_STORE", "s3://x"),
        ("BROKER_STORE", "gs://bucket/../x"),
        ("BROKER_RUN_KEY", "../x"),
        ("BROKER_PLACEMENT", "a/b"),
        ("BROKER_WORK_DIR", "relative"),
        ("RANK", "2"),
        ("RANK", "-1"),
        ("RANK", "\u0661"),
        ("WORLD_SIZE", "0"),
        ("WORLD_SIZE", "many"),
        ("BROKER_GATE_POLL_S", "0"),
        ("BROKER_GATE_POLL_S", "nan"),
        ("BROKER_GRACE_S", "soon"),
    ],
)
def test_a_setting_that_cannot_be_right_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=name):
        read_settings({**GOOD, name: value}, ("true",))


def test_a_command_is_needed() -> None:
    with pytest.raises(BadSettings, match="command"):
        read_settings(GOOD, ())


def test_the_file_fits_a_config_map_and_holds_what_it_needs() -> None:
    packed = pack()
    assert len(packed) < 512 << 10
    names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    assert names[0] == "__main__.py"
    assert "regions/launcher/rules.py" in names
    assert "regions/launcher/pack.py" not in names


def test_another_process_makes_the_same_file() -> None:
    code = "import hashlib, regions.launcher.pack as p; print(hashlib.sha256(p.pack()).hexdigest())"
    made = [
        subprocess.check_output(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, cwd=ROOT, text=True
        ).strip()
        for seed in ("1", "2")
    ]
    assert made == [hashlib.sha256(pack()).hexdigest()] * 2


def said(path: Path, change: Callable[[str, bytes], bytes]) -> tuple[int, str]:
    """Run the file with its members changed, and without a setting; return how it ends."""
    with zipfile.ZipFile(io.BytesIO(pack())) as packed, zipfile.ZipFile(path, "w") as made:
        for name in packed.namelist():
            made.writestr(name, change(name, packed.read(name)))
    ended = subprocess.run(
        [sys.executable, "-I", "-S", str(path), "--", "true"],
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stderr


NOT_SET = (BAD_CONFIGURATION, "launcher: WORLD_SIZE is not set\n")


def test_the_python_that_packed_it_compiles_nothing_again(tmp_path: Path) -> None:
    def spoil(name: str, data: bytes) -> bytes:
        return b"(" if name.endswith(".py") else data

    assert said(tmp_path / "launcher.pyz", spoil) == NOT_SET


def test_another_python_takes_the_sources(tmp_path: Path) -> None:
    def age(name: str, data: bytes) -> bytes:
        return b"\x55\x0d\r\n" + data[4:] if name.endswith(".pyc") else data

    assert said(tmp_path / "launcher.pyz", age) == NOT_SET


def test_every_cause_has_a_status_of_its_own() -> None:
    assert set(OF_CAUSE) == set(Cause) - {Cause.COMMAND}
    assert len(set(OF_CAUSE.values())) == len(OF_CAUSE)
    assert exit_status(Cause.COMMAND, 3, None) == 3
    assert exit_status(Cause.COMMAND, None, 9) == 137
    assert exit_status(Cause.FENCED, 0, None) == 83


@pytest.mark.parametrize(
    ("text", "progress"),
    [
        ('{"step": 3, "loss": 0.5, "samples": 12, "fields": {"lr": 1}}', Progress(3, 0.5, 12)),
        ('{"step": 3, "loss": 2}', Progress(3, 2.0, None)),
        ('{"step": -1, "loss": true, "samples": "x"}', Progress(None, None, None)),
        ('{"fields": {"checkpoint_trouble": "no room"}}', Progress(None, None, None, "no room")),
        ('{"fields": {"checkpoint_trouble": ["no", "room"]}}', Progress(None, None, None)),
        ('{"step": 3, "loss": NaN}', None),
        ('{"step": 3', None),
        ("[3]", None),
    ],
)
def test_what_training_says_is_anybodys_text(
    tmp_path: Path, text: str, progress: Progress | None
) -> None:
    (tmp_path / "progress.json").write_text(text)
    assert Exchange(str(tmp_path), "loss").progress() == progress


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ('{"loss": 9, "fields": {"train/loss": 0.5}}', 0.5),
        ('{"loss": 9, "train/loss": 0.25}', 0.25),
        ('{"loss": 9, "fields": {"train/loss": "low"}}', None),
        ('{"loss": 9, "fields": [1]}', None),
        ('{"loss": 9}', None),
    ],
)
def test_the_loss_is_the_field_that_the_intent_names(
    tmp_path: Path, text: str, loss: float | None
) -> None:
    (tmp_path / "progress.json").write_text(text)
    found = Exchange(str(tmp_path), "train/loss").progress()
    assert found == Progress(None, loss, None)
