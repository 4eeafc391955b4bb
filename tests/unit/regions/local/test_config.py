"""Configuration files of embedded clusters: what is read, and what is refused by name."""

from pathlib import Path

import pytest

from regions.local import faults
from regions.local.config import ConfigError, ScheduledFault, WorldConfig, dump, load
from tests.unit.regions.local.bench import make_config, make_flavor

TOML = """
cluster = "west"
region = "eu-west4"
store = "/data/store"

[[flavors]]
name = "h100"
accelerator = "H100"
capacity_type = "SPOT"
price_per_gpu_hour = "2.50"
max_nodes = 8

[[queues]]
name = "ours"
[[queues.quotas]]
flavor = "h100"
nominal = 8

[[schedule]]
at_s = 30
[schedule.fault]
kind = "partial"
flavor = "h100"
nodes = 5
"""


def read(folder: Path, text: str) -> WorldConfig:
    path = folder / "config.toml"
    path.write_text(text)
    return load(path)


def test_a_file_in_toml_is_read(tmp_path: Path) -> None:
    config = read(tmp_path, TOML)
    assert config.flavors[0] == make_flavor(startup_s=5.0)
    assert config.schedule == (
        ScheduledFault(at_s=30, fault=faults.Partial(flavor="h100", nodes=5)),
    )


def test_what_is_written_is_read_back_equal(tmp_path: Path) -> None:
    schedule = (ScheduledFault(at_s=1.0, every_s=60.0, fault=faults.Outage(duration_s=5.0)),)
    config = make_config(schedule=schedule)
    path = tmp_path / "config.json"
    path.write_bytes(dump(config))
    assert load(path) == config


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("max_nodes = 8", "max_nodes = 8\nmax_node = 9", "max_node"),
        ("max_nodes = 8", "max_nodes = -1", "max_nodes"),
        ('capacity_type = "SPOT"', 'capacity_type = "CHEAP"', "capacity_type"),
        ('kind = "partial"', 'kind = "flood"', "fault"),
        ('cluster = "west"', 'cluster = "../west"', "cluster"),
        ('store = "/data/store"', 'store = "data"', "store"),
        ('store = "/data/store"', "", "store"),
        ('flavor = "h100"\nnominal', 'flavor = "a100"\nnominal', "a100"),
        (
            '[[queues]]\nname = "ours"',
            '[[queues]]\nname = "ours"\nquotas=[]\n[[queues]]\nname = "ours"',
            "queue",
        ),
        ("at_s = 30", "at_s = 30\nevery_s = 0.0", "every_s"),
        ('region = "eu-west4"', 'region = "eu-west4"\nmaster_ports = [10, 20]', "master_ports"),
        ("[[flavors]]", "[[flavors", r"config\.toml"),
    ],
)
def test_what_cannot_work_is_refused_by_name(
    tmp_path: Path, old: str, new: str, named: str
) -> None:
    assert old in TOML
    with pytest.raises(ConfigError, match=named):
        read(tmp_path, TOML.replace(old, new, 1))


def test_a_file_that_is_not_there_or_too_long_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml"):
        load(tmp_path / "nothing.toml")
    with pytest.raises(ConfigError, match="longer than"):
        read(tmp_path, "#" * (2 << 20))
