"""brokerd's configuration: every field documented, everything else refused by name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import config_file
from broker.config import Config, ConfigError, parse

KUEUE = b"""
[[clusters]]
kind = 'kueue'
name = 'research'
region = 'eu-west4'
namespace = 'team-a'
store = '/s'
profiles = '/p'
"""
REGISTRY = b"[[registries]]\nprefix = 'registry.example/team'\n"
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
        b"[[clusters]]\nkind = 'eks'\ndirectory = '/d'\nworld = '/w'",
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
    "a cluster of Kueue without a way to it is refused": (
        KUEUE + b"kubeconfig = ''",
        r"clusters\[0\]\.kubeconfig: set just one",
    ),
    "two ways to one cluster are refused": (
        KUEUE + b"in_cluster = true\nkubeconfig = '/k'",
        r"clusters\[0\]\.kubeconfig: set just one",
    ),
    "a context without a kubeconfig is refused": (
        KUEUE + b"in_cluster = true\ncontext = 'c'",
        r"clusters\[0\]\.context",
    ),
    "a store that is no absolute path is refused": (
        KUEUE.replace(b"/s", b"s") + b"in_cluster = true",
        r"clusters\[0\]\.store: is neither an absolute path nor gs://",
    ),
    "a store in a bucket that cannot be is refused": (
        KUEUE.replace(b"/s", b"gs://bucket/../s") + b"in_cluster = true",
        r"clusters\[0\]\.store: not a key",
    ),
    "a token from nowhere is refused": (
        b"[buckets]\ntokens = 'token'",
        r"buckets\.tokens: is neither",
    ),
    "a GKE cluster is named in full": (
        KUEUE + b"gke = 'research'",
        r"clusters\[0\]\.gke",
    ),
    "a region is an id": (
        KUEUE.replace(b"eu-west4", b"EU") + b"in_cluster = true",
        r"clusters\[0\]\.region",
    ),
    "an unknown field of a flavor is refused by its path": (
        KUEUE + b"in_cluster = true\n[clusters.flavors.spot]\ncapacity = 'SPOT'",
        r"clusters\[0\]\.flavors\[\].*capacity",
    ),
    "a store in no network is refused": (
        KUEUE + b"in_cluster = true\nstore_reach = [{ cidr = '10.8.0.2/33' }]",
        r"clusters\[0\]\.store_reach\[0\]\.cidr",
    ),
    "a price below nothing is refused": (
        KUEUE + b"in_cluster = true\n[clusters.flavors.spot]\nprice_per_gpu_hour = -1.5",
        r"clusters\[0\]\.flavors\.spot\.price_per_gpu_hour",
    ),
    "a factor that is not one is refused": (
        b"[prices]\nfactors = [{ factor = -0.5 }]",
        r"prices.*factors\[0\]",
    ),
    "a price of a GiB below nothing is refused": (
        b"[prices]\negress = [{ per_gib = -0.5, source = 'europe' }]",
        r"prices.*egress\[0\]\.per_gib",
    ),
    "two prices of one pair are refused": (
        b"[prices]\negress = [{ per_gib = 0.5 }, { per_gib = 0.6 }]",
        r"prices.*egress\[1\]",
    ),
    "a registry whose prefix is a whole image's name is refused": (
        b"[[registries]]\nprefix = 'registry.example/team:v1'",
        r"registries\[0\]\.prefix",
    ),
    "a registry by an alias is refused with its name": (
        b"[[registries]]\nprefix = 'index.docker.io'",
        r"registries\[0\]\.prefix: .*its full name is docker\.io",
    ),
    "a login out of a file names the file": (
        REGISTRY + b"login = 'file'",
        r"registries\[0\]\.login_file: is not an absolute path",
    ),
    "a file that no login is read from is refused": (
        REGISTRY + b"login_file = '/l'",
        r"registries\[0\]\.login_file",
    ),
    "an unknown way to log in is refused": (
        REGISTRY + b"login = 'aws'",
        r"registries\[0\]\.login",
    ),
    "a registry of another machine is not spoken to without TLS": (
        REGISTRY + b"plain_http = true",
        r"registries\[0\]\.plain_http: is for loopback alone",
    ),
    "a host that begins like loopback is another machine": (
        b"[[registries]]\nprefix = '127.0.0.1.example'\nplain_http = true",
        r"registries\[0\]\.plain_http",
    ),
    "Google's tokens are not sent without TLS": (
        b"[[registries]]\nprefix = 'localhost:5000'\nplain_http = true\nlogin = 'google'",
        r"registries\[0\]\.plain_http",
    ),
    "a region pulls from one registry": (
        REGISTRY.replace(b"team", b"one") + b"region = 'eu'\n" + REGISTRY + b"region = 'eu'",
        r"registries\[1\]\.region: eu has a registry already",
    ),
    "a prefix is named once": (REGISTRY + REGISTRY, r"registries\[1\]\.prefix"),
    "text that is not TOML is refused": (b"x = ", "not TOML"),
    "bytes that are not text are refused": (b"\xff\xfe", "UTF-8"),
}


@pytest.mark.parametrize(("text", "words"), CASES.values(), ids=CASES.keys())
def test_a_bad_file_is_refused_in_words(text: bytes, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(text, "brokerd.toml")


def test_the_printed_file_is_the_default_and_names_every_field() -> None:
    printed = config_file.commented()
    assert parse(printed.encode(), "printed") == Config()
    for field in config_file.FIELDS:
        assert f"# {field.rpartition('.')[2]} = " in printed


def test_the_example_of_registries_is_taken() -> None:
    example = Path(__file__).parents[2] / "deploy" / "examples" / "registries.toml"
    found = parse(example.read_bytes(), str(example)).registries
    assert [one.region for one in found] == ["", "us-central1", "europe-west4", "asia-east1"]


def test_every_field_is_documented() -> None:
    found = {
        f"{section.path}.{field}"
        for section in config_file.SECTIONS
        for field, _ in section.fields()
    }
    assert found == set(config_file.FIELDS)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8")))
def test_any_bytes_are_a_configuration_or_a_config_error(data: bytes) -> None:
    assert _taken_or_refused(data).startswith(("taken", "x"))


@given(
    section=st.sampled_from(["server", "data", "log", "metrics", "loops"]),
    field=st.sampled_from(sorted(name.rpartition(".")[2] for name in config_file.FIELDS)),
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
