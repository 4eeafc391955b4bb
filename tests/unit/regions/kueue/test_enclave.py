"""The enclave: a gang reaches itself, names and its store; the rest only if it is said."""

import ipaddress
from typing import Any

import pytest

from regions.cluster import Queue
from regions.kueue.enclave import network_policy
from regions.kueue.names import selector
from regions.kueue.profiles import Reach
from regions.kueue.site import Site
from tests.unit.regions.kueue.making import make_profile, make_queue, make_site

STORE = Reach(cidr="10.8.0.2/32", ports=(2049,))


def reaches(queue: Queue, site: Site, address: str, port: int, protocol: str = "TCP") -> bool:
    """Whether a gang's process may connect to an address outside of the cluster's pods."""
    policy = network_policy(queue, site)
    return any(_lets_through(rule, address, port, protocol) for rule in policy["spec"]["egress"])


def _lets_through(rule: dict[str, Any], address: str, port: int, protocol: str) -> bool:
    ports = rule.get("ports")
    if ports is not None and {"protocol": protocol, "port": port} not in ports:
        return False
    ip = ipaddress.ip_address(address)
    blocks = [to["ipBlock"] for to in rule["to"] if "ipBlock" in to]
    return any(
        ip in ipaddress.ip_network(block["cidr"])
        and not any(ip in ipaddress.ip_network(net) for net in block.get("except", ()))
        for block in blocks
    )


def test_only_the_gang_itself_may_connect_to_it() -> None:
    policy = network_policy(make_queue(), make_site())
    gang = {"podSelector": {"matchLabels": selector("k3v9q0aa1b2c")}}
    assert policy["spec"]["podSelector"] == gang["podSelector"]
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["ingress"] == [{"from": [gang]}]
    assert policy["spec"]["egress"][0] == {"to": [gang]}


CASES = {
    "names, by the cache of its machine": ("169.254.20.10", 53, "UDP", True),
    "names, where GKE itself answers for them": ("169.254.169.254", 53, "UDP", True),
    "the metadata server": ("169.254.169.254", 80, "TCP", True),
    "the store": ("10.8.0.2", 2049, "TCP", True),
    "another port of the store": ("10.8.0.2", 22, "TCP", False),
    "a neighbour of the store": ("10.8.0.3", 2049, "TCP", False),
    "the internet": ("140.82.121.3", 443, "TCP", False),
    "the API server": ("10.0.0.1", 443, "TCP", False),
}


@pytest.mark.parametrize("case", CASES)
def test_a_closed_gang_reaches(case: str) -> None:
    address, port, protocol, expected = CASES[case]
    assert (
        reaches(make_queue(), make_site(store_reach=(STORE,)), address, port, protocol) == expected
    )


OPEN = {
    "the internet": ("140.82.121.3", 443, True),
    "the internet, the newer one": ("2606:50c0:8000::153", 443, True),
    "another port of the internet": ("140.82.121.3", 22, False),
    "a private network": ("10.0.0.1", 443, False),
    "a neighbour's network": ("192.168.1.1", 443, False),
    "a private network, the newer one": ("fd00::1", 443, False),
    "another port of the metadata server": ("169.254.169.254", 443, False),
}


@pytest.mark.parametrize("case", OPEN)
def test_a_gang_that_asks_for_the_internet_reaches(case: str) -> None:
    address, port, expected = OPEN[case]
    assert reaches(make_queue(internet=True), make_site(), address, port) == expected


def test_what_a_profile_opens_is_open() -> None:
    site = make_site(profile=make_profile(reach=[{"cidr": "10.9.0.0/16"}]))
    assert reaches(make_queue(), site, "10.9.3.4", 6379)
    assert not reaches(make_queue(), make_site(), "10.9.3.4", 6379)


def test_a_metadata_server_is_only_reached_where_there_is_one() -> None:
    elsewhere = make_site(is_gke=False)
    assert not reaches(make_queue(), elsewhere, "169.254.169.254", 80)
    assert not reaches(make_queue(), elsewhere, "169.254.169.254", 53, "UDP")
    assert reaches(make_queue(), elsewhere, "169.254.20.10", 53, "UDP")
