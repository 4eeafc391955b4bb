"""What brokerd is told: a TOML file, and the defaults.

The rule: a field that is not known is refused by name, a value that cannot work is refused by its
dotted path, and nothing is read from the environment but where the file and the data are. What each
field means is in ``config_file``. Read ``Config`` first.
"""

import tomllib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from broker import config_registry
from broker.config_registry import Registry
from regions.gcp.prices import egress
from regions.gcp.prices.egress import EgressTerm
from regions.gcp.prices.terms import Factor, Sunk, Terms
from regions.kueue.profile_rules import is_network
from regions.kueue.profiles import Reach
from regions.launcher.store import GS, InvalidKey, location_of

MAX_CONFIG_BYTES = 1 << 20
Pause = Annotated[float, Meta(ge=0.05, le=3600)]
Days = Annotated[float, Meta(ge=0.01, le=36_500)]
Bytes = Annotated[int, Meta(ge=1024, le=1 << 40)]
Seconds = Annotated[float, Meta(ge=0, le=10_000_000)]
Id = Annotated[str, Meta(pattern=r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?\Z")]
Label = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")]
Object = Annotated[str, Meta(min_length=1, max_length=253)]
Word = Annotated[str, Meta(max_length=63)]
MAX_PRICE = 10_000
GKE_NAME = r"^(projects/[a-z0-9:.-]{1,63}/locations/[a-z0-9-]{1,63}/clusters/[a-z0-9-]{1,63})?\Z"


class ConfigError(Exception):
    """The configuration cannot be used; the sentence names the field."""


class _Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all sections share: they are values, and know their fields."""


class Server(_Section, frozen=True, kw_only=True):
    """Where the API is served."""

    address: str = ""


class Access(_Section, frozen=True, kw_only=True):
    """How other machines reach the API."""

    address: str = ""
    certificate: str = ""
    key: str = ""
    client_ca: str = ""
    tokens: str = ""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Say what cannot be, as (field, sentence)."""
        for field in ("certificate", "key"):
            if self.address and not getattr(self, field):
                yield field, "is missing: other machines are served over TLS alone"
        for field in ("certificate", "key", "client_ca", "tokens"):
            if getattr(self, field) and not Path(getattr(self, field)).is_absolute():
                yield field, "is not an absolute path"


class Data(_Section, frozen=True, kw_only=True):
    """What is kept, and for how long."""

    retention_days: Days = 90.0
    bundle_max_bytes: Bytes = 256 << 20
    snapshot_every_s: Pause = 60.0


class Log(_Section, frozen=True, kw_only=True):
    """The daemon's own log, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["logfmt", "json"] = "logfmt"


class Metrics(_Section, frozen=True, kw_only=True):
    """Prometheus."""

    address: str = ""


class Loops(_Section, frozen=True, kw_only=True):
    """How often each loop looks when no news makes it look sooner."""

    observe_s: Pause = 0.5
    place_s: Pause = 1.0
    converge_s: Pause = 1.0
    replicate_s: Pause = 1.0
    reap_s: Pause = 30.0


class Local(_Section, frozen=True, kw_only=True, tag_field="kind", tag="local"):
    """An embedded cluster. Its name, its region and its store are in ``world``."""

    directory: str
    world: str

    def problems(self) -> Iterator[tuple[str, str]]:
        """Say what cannot be, as (field, sentence)."""
        for field in ("directory", "world"):
            if not Path(getattr(self, field)).is_absolute():
                yield field, "is not an absolute path"


class Flavor(_Section, frozen=True, kw_only=True):
    """What ops say of a flavor that its machines' labels do not, or say otherwise."""

    capacity_type: Literal["", "RESERVED", "ON_DEMAND", "SPOT", "FLEX"] = ""
    accelerator: Word = ""
    accelerators_per_node: Annotated[int, Meta(ge=1, le=64)] | None = None
    zones: tuple[Word, ...] = ()
    max_nodes: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    startup_s: Seconds | None = None
    preemption_notice_s: Seconds | None = None
    max_run_s: Seconds | None = None
    price_per_gpu_hour: Decimal | None = None


class Kueue(_Section, frozen=True, kw_only=True, tag_field="kind", tag="kueue"):
    """A Kubernetes cluster with Kueue."""

    name: Id
    region: Id
    namespace: Label
    store: str
    profiles: str
    kubeconfig: str = ""
    context: str = ""
    in_cluster: bool = False
    gke: Annotated[str, Meta(pattern=GKE_NAME)] = ""
    has_gke_nodes: bool = False
    queues: tuple[Object, ...] = ()
    priority_classes: tuple[Object, ...] = ()
    allows_host_paths: bool = False
    store_reach: tuple[Reach, ...] = ()
    gate_poll_s: Pause = 1.0
    flavors: dict[str, Flavor] = {}

    def problems(self) -> Iterator[tuple[str, str]]:
        """Say what cannot be, as (field, sentence)."""
        if why := _place_problem(self.store):
            yield "store", why
        for field in ("profiles", *(["kubeconfig"] if self.kubeconfig else [])):
            if not Path(getattr(self, field)).is_absolute():
                yield field, "is not an absolute path"
        if sum(map(bool, (self.kubeconfig, self.in_cluster, self.gke))) != 1:
            yield "kubeconfig", "set just one of kubeconfig, in_cluster and gke"
        if self.context and not self.kubeconfig:
            yield "context", "is one of a kubeconfig, and none is named"
        for at, reach in enumerate(self.store_reach):
            if not is_network(reach.cidr):
                yield f"store_reach[{at}].cidr", "is no network such as 10.0.0.0/24"
        for name, flavor in self.flavors.items():
            price = flavor.price_per_gpu_hour
            if price is not None and not (price.is_finite() and 0 <= price <= MAX_PRICE):
                yield f"flavors.{name}.price_per_gpu_hour", f"is not between 0 and {MAX_PRICE}"


class Buckets(_Section, frozen=True, kw_only=True):
    """How buckets of Google's are reached, where they are regions' stores."""

    endpoint: Annotated[str, Meta(pattern=r"^(https?://[A-Za-z0-9.:-]{1,253})?\Z")] = ""
    tokens: str = ""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Say what cannot be, as (field, sentence)."""
        is_source = self.tokens.startswith(("/", "http://"))
        if self.tokens and not is_source:
            yield "tokens", "is neither an absolute path nor an http:// address"


class Prices(_Section, frozen=True, kw_only=True):
    """Where the prices of real clusters' GPUs are from, and what a GiB between regions costs."""

    source: Literal["shipped", "google"] = "shipped"
    factors: tuple[Factor, ...] = ()
    sunk: tuple[Sunk, ...] = ()
    egress: tuple[EgressTerm, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a contract that contradicts itself. Raises ValueError, as its terms do."""
        assert self.terms is not None
        for field, why in egress.problems(self.egress):
            raise ValueError(f"egress{field} {why}")

    @property
    def terms(self) -> Terms:
        """The contract."""
        return Terms(factors=self.factors, sunk=self.sunk)


Cluster = Local | Kueue


class Config(_Section, frozen=True, kw_only=True):
    """The whole file. No clusters named: the embedded default of three regions."""

    server: Server = Server()
    access: Access = Access()
    data: Data = Data()
    log: Log = Log()
    metrics: Metrics = Metrics()
    loops: Loops = Loops()
    prices: Prices = Prices()
    buckets: Buckets = Buckets()
    clusters: tuple[Cluster, ...] = ()
    registries: tuple[Registry, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what contradicts itself. Raises ValueError, which decoding reports."""
        for field, why in self.access.problems():
            raise ValueError(f"access.{field}: {why}")
        for field, why in self.buckets.problems():
            raise ValueError(f"buckets.{field}: {why}")
        directories = [one.directory for one in self.clusters if isinstance(one, Local)]
        if len(set(directories)) != len(directories):
            raise ValueError("two clusters have one directory")
        for number, cluster in enumerate(self.clusters):
            for field, why in cluster.problems():
                raise ValueError(f"clusters[{number}].{field}: {why}")
        for field, why in config_registry.problems(self.registries):
            raise ValueError(f"registries{field}: {why}")


def load(path: Path) -> Config:
    """Read a configuration file. Raises ConfigError, which names the field."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_CONFIG_BYTES} bytes")
    return parse(data, str(path))


def parse(data: bytes, source: str) -> Config:
    """Read the text of a configuration file. Raises ConfigError, which names the field."""
    try:
        return msgspec.convert(_with_kinds(tomllib.loads(data.decode())), Config)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source} is not UTF-8 text") from error
    except RecursionError as error:
        raise ConfigError(f"{source} is nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {_in_words(str(error))}") from error


def _with_kinds(raw: dict[str, Any]) -> dict[str, Any]:
    """Fill in the kind of clusters that name none: they are embedded ones."""
    clusters = raw.get("clusters")
    if not isinstance(clusters, list):
        return raw
    filled = [{"kind": "local", **one} if isinstance(one, dict) else one for one in clusters]
    return {**raw, "clusters": filled}


def _place_problem(text: str) -> str:
    """Say why nothing can be a store there, or nothing."""
    if not text.startswith(GS):
        return "" if Path(text).is_absolute() else "is neither an absolute path nor gs://BUCKET"
    try:
        location_of(text)
    except InvalidKey as error:
        return str(error)
    return ""


def _in_words(message: str) -> str:
    """Turn msgspec's sentence around: the field first, as people write it."""
    what, _, path = message.partition(" - at `$")
    field = path.removesuffix("`").lstrip(".").replace("[...]", "[]")
    return f"{field}: {what}" if field else what
