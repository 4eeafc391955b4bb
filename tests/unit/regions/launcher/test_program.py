"""The launcher as a program: its settings, its one file, its exit statuses."""

import io
import zipfile
from pathlib import Path

import pytest

from regions.launcher.exchange import Exchange, Progress
from regions.launcher.exits import OF_CAUSE, exit_status
from regions.launcher.pack import pack
from regions.launcher.rules import Cause
from regions.launcher.settings import BadSettings, read_settings

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
    assert (settings.store_path, settings.rank, settings.world_size) == ("/store", 1, 2)
    assert (settings.gate_poll_s, settings.gate_timeout_s) == (0.5, 3600.0)
    assert settings.passed_on == {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1"}
    assert settings.loss_field == "loss"
    named = read_settings({**GOOD, "BROKER_LOSS_FIELD": "train/loss"}, ("true",))
    assert (named.loss_field, named.passed_on) == ("train/loss", settings.passed_on)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BROKER_STORE", ""),
        ("BROKER_STORE", "s3://x"),
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


def test_the_same_sources_make_the_same_file_and_it_fits_a_config_map() -> None:
    packed = pack()
    assert packed == pack()
    assert len(packed) < 512 << 10
    names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
    assert names[0] == "__main__.py"
    assert "regions/launcher/rules.py" in names
    assert "regions/launcher/pack.py" not in names


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
