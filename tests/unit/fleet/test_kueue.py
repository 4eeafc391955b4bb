"""What a configuration says of a cluster with Kueue is what its port is told."""

from decimal import Decimal

from broker.config import Buckets, Flavor, Kueue
from broker.fleet.kueue import settings_of
from broker.fleet.pricing import Listed, Pricing
from regions.gcp.prices.shipped import shipped
from regions.gcp.prices.terms import Terms
from regions.kueue.profiles import Profiles, Reach
from tests.unit.regions.kueue.making import make_profile

STORE = Reach(cidr="10.8.0.2/32", ports=(2049,))


def test_what_ops_wrote_reaches_the_port() -> None:
    entry = Kueue(
        name="west",
        region="eu-west4",
        namespace="training",
        store="/stores/eu",
        profiles="/etc/profiles.toml",
        gke="projects/p/locations/europe-west4/clusters/west",
        store_reach=(STORE,),
        flavors={"spot": Flavor(capacity_type="SPOT", price_per_gpu_hour=Decimal(2))},
    )
    profiles = Profiles(default=make_profile(), flavors={})
    pricing = Pricing(quoting=Listed(book=shipped(), terms=Terms()))
    settings = settings_of(entry, profiles, pricing, Buckets())
    assert settings.store_reach == (STORE,)
    assert settings.bucket is None
    assert settings.is_gke
    assert (settings.cluster, settings.region, settings.namespace) == (
        *("west", "eu-west4", "training"),
    )
    assert settings.queues.prices == {"spot": Decimal(2)}
    assert settings.queues.flavors["spot"].capacity_type == "SPOT"
