"""A region's store can be a bucket: found, marked, opened with one identity, or refused."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.config import Buckets, Config, ConfigError, Kueue
from broker.fleet.kueue import KueueMember
from broker.fleet.opening import open_fleet
from broker.fleet.places import Place, Places
from broker.options import StartError
from regions.launcher.store import MARKER
from tests.fakes.gcs import FakeGcs, serve

TOKEN, EAST = "a-token-of-ops", "gs://east/broker/"


@dataclass(frozen=True)
class Cloud:
    """A fake that lets one token in, and a broker's settings for it."""

    fake: FakeGcs
    settings: Buckets
    places: Places

    def place(self, text: str) -> Place:
        return self.places.at(text)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    with serve() as fake:
        fake.cloud.make_bucket("east", "us-east4", "STANDARD")
        fake.tokens = {TOKEN}
        tokens = tmp_path / "token"
        tokens.write_text(TOKEN)
        settings = Buckets(endpoint=fake.url, tokens=str(tokens))
        places = Places(settings, tmp_path)
        yield Cloud(fake, settings, places)
        places.close()


def test_a_bucket_is_one_store_for_records_and_for_content(cloud: Cloud) -> None:
    place = cloud.place("gs://east/broker/")
    assert (place.location, place.folder) == ("gs://east/broker", None)
    place.mark("us-east4")
    assert place.control().create_if_absent("runs/r/placements/p/grant", b"g")
    assert place.content().stat(MARKER) is not None
    assert [one.name for one in place.content().list("runs/").entries] == [
        "runs/r/placements/p/grant"
    ]


def test_a_token_that_was_replaced_is_used_from_then_on(cloud: Cloud) -> None:
    place = cloud.place("gs://east/broker")
    place.mark("us-east4")
    control, content = place.control(), place.content()
    cloud.fake.tokens = {"the-next"}
    Path(cloud.settings.tokens).write_text("the-next")
    assert control.list("") == ()
    assert content.list("runs/").entries == ()


def test_a_bucket_that_is_not_there_cannot_become_a_store(cloud: Cloud) -> None:
    with pytest.raises(StartError, match=r"the store of us-east4 cannot be written: .*404"):
        cloud.place("gs://absent/broker").mark("us-east4")


def test_a_token_that_is_not_there_is_said(cloud: Cloud) -> None:
    Path(cloud.settings.tokens).unlink()
    with pytest.raises(StartError, match="no token could be had"):
        cloud.place("gs://east").mark("us-east4")


def test_without_credentials_buckets_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent"))
    with pytest.raises(StartError, match="no Application Default Credentials"):
        Places(Buckets(), tmp_path).at("gs://east").content()


def make_kueue(
    tmp_path: Path, profile: str, *, name: str = "a-1", region: str = "a", store: str = EAST
) -> Kueue:
    profiles = tmp_path / "profiles.toml"
    profiles.write_text(f"[default]\n{profile}\n")
    return Kueue(
        name=name,
        region=region,
        store=store,
        namespace="n",
        profiles=str(profiles),
        kubeconfig="/k",
    )


def test_gangs_are_told_the_bucket_and_what_opens_it(tmp_path: Path) -> None:
    profile = """
store_tokens = "/var/token/token"
volumes = [{ name = "token", mount_path = "/var/token", secret = "store-token" }]
"""
    settings = Buckets(endpoint="https://storage.example")
    config = Config(buckets=settings, clusters=(make_kueue(tmp_path, profile),))
    member = open_fleet(config, tmp_path).members[0]
    assert isinstance(member, KueueMember)
    bucket = member.settings.bucket
    assert bucket is not None
    assert (bucket.location, bucket.endpoint) == ("gs://east/broker", "https://storage.example")
    assert member.settings.profiles.default.store_tokens == "/var/token/token"


def test_two_regions_of_one_bucket_need_folders_of_their_own(tmp_path: Path) -> None:
    one = make_kueue(tmp_path, "")
    same = make_kueue(tmp_path, "", name="b-1", region="b", store="gs://east/broker")
    apart = make_kueue(tmp_path, "", name="b-1", region="b", store="gs://east/other")
    with pytest.raises(StartError, match="regions a and b have one store, gs://east/broker"):
        open_fleet(Config(clusters=(one, same)), tmp_path)
    assert open_fleet(Config(clusters=(one, apart)), tmp_path).regions == ("a", "b")


@pytest.mark.parametrize(
    ("profile", "store", "sentence"),
    [
        ('store = "/s"\nvolumes = [{ name = "s", mount_path = "/s", claim = "s" }]', "gs://east",
         "default.store: a bucket is reached as it is"),
        ("", "/stores/a", "default.store is missing"),
        ('store_tokens = "/t"', "gs://east", "store_tokens: /t is in none of the volumes"),
    ],
    ids=["a directory for a bucket", "no directory", "a token that no volume brings"],
)  # fmt: skip
def test_a_profile_that_does_not_lead_to_the_store_is_refused(
    tmp_path: Path, profile: str, store: str, sentence: str
) -> None:
    one = make_kueue(tmp_path, profile, store=store)
    with pytest.raises(ConfigError, match=sentence):
        open_fleet(Config(clusters=(one,)), tmp_path)
