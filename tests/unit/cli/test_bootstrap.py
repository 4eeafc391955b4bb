"""``broker regions bootstrap`` as it is typed: what it prints, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from broker.cli import exits
from broker.cli.main import main
from broker.config import Kueue, parse
from regions.kueue.bootstrap import Settings
from regions.kueue.printed import entry
from tests.house.tree import ROOT

VERB = ["regions", "bootstrap"]
# Hides what only the daemon needs, as in an installation of the client.
CLIENT_ONLY = """
import sys
class Hidden:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {"kubernetes", "aiohttp", "msgspec", "sqlite_utils", "uvloop"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
from broker.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def client_only(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CLIENT_ONLY, *VERB, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
    )


def test_what_is_printed_can_be_applied(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*VERB, "--queue", "training=research", "--namespace", "lab"]) == exits.OK
    told = [each for each in yaml.safe_load_all(capsys.readouterr().out) if each]
    [queue] = [each for each in told if each["kind"] == "LocalQueue"]
    assert (queue["metadata"]["namespace"], queue["spec"]) == ("lab", {"clusterQueue": "research"})
    assert all("apiVersion" in each for each in told)


def test_programs_get_the_same_with_what_it_grants(capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--own-cluster-queue", "broker", "--cohort", "all", "--flavor", "spot:nvidia.com/gpu=64"]
    assert main([*VERB, *own, "--check", "flex:spot", "-o", "json"]) == exits.OK
    told = json.loads(capsys.readouterr().out)["objects"]
    assert {tuple(sorted(each)) for each in told} == {("file", "grants", "manifest")}
    [queue] = [each for each in told if each["manifest"]["kind"] == "ClusterQueue"]
    assert queue["manifest"]["spec"]["admissionChecksStrategy"] == {
        "admissionChecks": [{"name": "flex", "onFlavors": ["spot"]}]
    }
    assert queue["grants"][0] == "Namespace capacity-broker, and no other, has 64 nvidia.com/gpu of spot."  # fmt: skip  # noqa: E501
    [local] = [each for each in told if each["manifest"]["kind"] == "LocalQueue"]
    assert local["manifest"]["spec"] == {"clusterQueue": "broker"}


def test_what_brokerd_is_to_be_told_is_all_that_it_wants() -> None:
    settings = Settings(namespace="lab", queues={"a": "x", "b": "y"})
    said = "\n".join(entry(settings, "eu")).replace("REGION", "europe-west4")
    assert parse(said.encode(), "printed").clusters == (
        Kueue(
            name="eu",
            region="europe-west4",
            namespace="lab",
            queues=("a", "b"),
            kubeconfig="/FILE",
            store="/DIRECTORY",
            profiles="/FILE",
        ),
    )


def test_a_directory_gets_a_file_for_each_kind_of_thing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*VERB, "--queue", "training=training", "--directory", str(tmp_path)]) == exits.OK
    assert capsys.readouterr().err == f"wrote 6 files to {tmp_path}\n"
    kept = {each.name: each.read_text() for each in (ROOT / "deploy/member").glob("*.yaml")}
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == kept


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "--queue NAME=CLUSTERQUEUE says which"),
        (["--queue", "training"], "'training' is not NAME=CLUSTERQUEUE"),
        (["--queue", "a=b", "--cohort", "all"], "--cohort is of --own-cluster-queue"),
        (["--queue", "a=b", "--flavor", "spot:gpu=1"], "--flavor is of --own-cluster-queue"),
        (["--own-cluster-queue", "a", "--flavor", "spot"], "'spot' is not NAME:RESOURCE=N"),
        (["--own-cluster-queue", "a", "--flavor", "spot:gpu"], "is not NAME:RESOURCE=N"),
        (["--own-cluster-queue", "a"], "needs a flavor"),
        (["--queue", "a=b", "--namespace", "default"], "everybody's"),
        (["--queue", "a=b", "--apply", "--remove"], "cannot both be meant"),
    ],
)
def test_what_cannot_be_meant_is_a_matter_of_usage(
    given: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*VERB, *given]) == exits.USAGE
    assert why in capsys.readouterr().err


def test_the_client_alone_prints_and_says_what_it_takes_to_do_more() -> None:
    plain = client_only("--queue", "training=training")
    assert (plain.returncode, plain.stderr) == (exits.OK, "")
    assert "kind: ClusterRole\n" in plain.stdout
    more = client_only("--queue", "training=training", "--apply", "--yes")
    assert more.returncode == exits.USAGE
    assert "pip install 'capacity-broker[daemon]'" in more.stderr


def test_a_kubeconfig_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = str(tmp_path / "none")
    assert main([*VERB, "--remove", "--kubeconfig", where]) == exits.REFUSED
    assert capsys.readouterr().err == (
        f"broker: the cluster did not do it: there is no kubeconfig {where}\n"
    )


def test_a_cluster_that_does_not_answer_is_an_answer_that_did_not_come(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "lab",
                "clusters": [{"name": "lab", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "me", "user": {"token": "secret"}}],
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
            }
        )
    )
    given = [*VERB, "--queue", "a=b", "--kubeconfig", str(config), "--apply", "--yes"]
    assert main(given) == exits.UNREACHABLE
    said = capsys.readouterr().err
    assert said.startswith("broker: the cluster did not answer: ")
    assert "secret" not in said
