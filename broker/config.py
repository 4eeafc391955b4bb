"""What brokerd is told: a TOML file whose every field is documented here, and the defaults.

The rule: a field that is not known is refused by name, a value that cannot work is refused by its
dotted path, and nothing is read from the environment but where the file and the data are.
``FIELDS`` documents each field; ``commented`` prints the file with all defaults. Read ``Config``
first.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from regions.gcp.prices.terms import Factor, Sunk, Terms
from regions.kueue.profile_rules import is_network
from regions.kueue.profiles import Reach

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
        for field in ("store", "profiles", *(["kubeconfig"] if self.kubeconfig else [])):
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


class Prices(_Section, frozen=True, kw_only=True):
    """Where the prices of real clusters' GPUs are from."""

    source: Literal["shipped", "google"] = "shipped"
    factors: tuple[Factor, ...] = ()
    sunk: tuple[Sunk, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a contract that contradicts itself. Raises ValueError, as its terms do."""
        assert self.terms is not None

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
    clusters: tuple[Cluster, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what contradicts itself. Raises ValueError, which decoding reports."""
        for field, why in self.access.problems():
            raise ValueError(f"access.{field}: {why}")
        directories = [one.directory for one in self.clusters if isinstance(one, Local)]
        if len(set(directories)) != len(directories):
            raise ValueError("two clusters have one directory")
        for number, cluster in enumerate(self.clusters):
            for field, why in cluster.problems():
                raise ValueError(f"clusters[{number}].{field}: {why}")


FIELDS: dict[str, str] = {
    "server.address": "unix:/PATH, or HOST:PORT on loopback; empty: brokerd.sock in the data"
    " directory. Nobody is asked for a token there, so that any other address is refused.",
    "access.address": "HOST:PORT that other machines reach, such as 0.0.0.0:7443, over TLS and with"
    " tokens; empty: none.",
    "access.certificate": "The certificate to show, with its chain, as PEM. Renewed files are taken"
    " up without a restart.",
    "access.key": "Its private key, as PEM, without a password; nobody else may read it.",
    "access.client_ca": "The CA whose clients alone may connect, as PEM; empty: any client.",
    "access.tokens": "The file that brokerd tokens keeps; empty: tokens.json in the data"
    " directory.",
    "data.retention_days": "Ended runs, their events and logs are removed after so many days.",
    "data.bundle_max_bytes": "The largest working directory that is taken in, packed.",
    "data.snapshot_every_s": "How often live runs are written whole, so that a start is quick.",
    "log.level": "debug, info, warning or error.",
    "log.format": "logfmt for people, json for programs.",
    "metrics.address": "HOST:PORT on loopback for Prometheus; empty: none.",
    "loops.observe_s": "Seconds between two looks at a cluster.",
    "loops.place_s": "Seconds between two looks at what waits.",
    "loops.converge_s": "Seconds between two comparisons of what should be with what is.",
    "loops.replicate_s": "Seconds between two looks at checkpoints and their copies.",
    "loops.reap_s": "Seconds between two looks for what is over or unknown.",
    "prices.source": "What GPUs of real clusters cost. shipped: list prices that come with the"
    " program; google: Google's billing catalog, read twice a day with the machine's own"
    " credentials, and the shipped list until that was read.",
    "prices.factors": "A contract: list prices times a factor, such as"
    ' { factor = 0.7, region = "us-central1", capacity_type = "ON_DEMAND", accelerator = "H100" };'
    " what is left out fits everything, and of several that fit the one that names most holds.",
    "prices.sunk": "Reservations that are paid for already, and cost a run nothing more, such as"
    ' { accelerator = "H100", region = "us-central1" }. Any other costs what it would on demand,'
    " and takes no run while nobody knows that price.",
    "clusters[local].kind": "local: an embedded cluster on this machine.",
    "clusters[local].directory": "Where the embedded cluster keeps its state.",
    "clusters[local].world": "Its own file: its name, region, store, queues and flavors.",
    "clusters[kueue].kind": "kueue: a Kubernetes cluster with Kueue and JobSet.",
    "clusters[kueue].name": "What users and logs call the cluster.",
    "clusters[kueue].region": "The region that it stands in. Clusters of one region share a store.",
    "clusters[kueue].namespace": "The namespace in which gangs are made.",
    "clusters[kueue].store": "The directory of the region's store, as brokerd reaches it.",
    "clusters[kueue].profiles": "A TOML file of pod profiles: what every gang of a flavor gets, and"
    " where its processes find the store.",
    "clusters[kueue].kubeconfig": "How it is reached: a kubeconfig file, or one of the next three.",
    "clusters[kueue].context": "A context of the kubeconfig; empty: its current one.",
    "clusters[kueue].in_cluster": "By the service account of the pod that brokerd runs in.",
    "clusters[kueue].gke": "By Google's credentials: projects/PROJECT/locations/LOCATION/clusters/"
    "NAME.",
    "clusters[kueue].has_gke_nodes": "Whether its nodes are GKE's, so that gangs are held to their"
    " capacity type by GKE's labels. One that gke names always has such.",
    "clusters[kueue].queues": "The LocalQueues that runs may use; none: all of the namespace.",
    "clusters[kueue].priority_classes": "The WorkloadPriorityClasses for gangs. The lowest, in"
    " which gangs wait for a grant, should preempt nobody; none: those that `broker regions"
    " bootstrap` made, or else all of the cluster.",
    "clusters[kueue].allows_host_paths": "Whether profiles may show gangs directories of nodes.",
    "clusters[kueue].store_reach": "Where the store is on the network, for gangs that reach it over"
    " the network from within, as through gcsfuse or NFS: their enclaves let that through. Such as"
    ' { cidr = "10.8.0.2/32", ports = [2049] }; without ports it is every port.',
    "clusters[kueue].gate_poll_s": "How often a gang at its gate looks at the store, in seconds;"
    " training, three times as seldom.",
    "clusters[kueue].flavors": "By flavor, what its nodes' labels do not tell, or tell otherwise.",
    "clusters[kueue].flavors.*.capacity_type": "RESERVED, ON_DEMAND, SPOT or FLEX.",
    "clusters[kueue].flavors.*.accelerator": "What runs ask for, such as H100.",
    "clusters[kueue].flavors.*.accelerators_per_node": "How many a node has.",
    "clusters[kueue].flavors.*.zones": "The zones that nodes come from.",
    "clusters[kueue].flavors.*.max_nodes": "The most nodes there can be.",
    "clusters[kueue].flavors.*.startup_s": "How long a node takes to come.",
    "clusters[kueue].flavors.*.preemption_notice_s": "From the notice to the end of a node that is"
    " taken away.",
    "clusters[kueue].flavors.*.max_run_s": "How long a node stays at most.",
    "clusters[kueue].flavors.*.price_per_gpu_hour": "US dollars, in the place of any other price.",
}


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


def commented() -> str:
    """Return the file with every field, its meaning and its default, all commented out."""
    lines = ["# brokerd's configuration. Every field, with its default.", ""]
    for section in SECTIONS:
        lines.append(f"# {section.header}" if section.is_repeated else section.header)
        for field, default in section.fields():
            lines.append(f"# {FIELDS[f'{section.path}.{field}']}")
            lines.append(f"# {field} = {default}")
        lines.append("")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table of the file. ``path`` begins its fields' names in ``FIELDS``."""

    path: str
    header: str
    struct: type[_Section]
    is_repeated: bool = False

    def fields(self) -> Iterator[tuple[str, str]]:
        """Yield each field with its default, as the file writes it."""
        tag = self.struct.__struct_config__.tag
        if tag is not None:
            yield "kind", f'"{tag}"'
        for field in msgspec.structs.fields(self.struct):
            yield field.name, _toml(field)


SECTIONS = (
    *(
        Section(path=top.name, header=f"[{top.name}]", struct=type(top.default))
        for top in msgspec.structs.fields(Config)
        if top.name != "clusters"
    ),
    Section(path="clusters[local]", header="[[clusters]]", struct=Local, is_repeated=True),
    Section(path="clusters[kueue]", header="[[clusters]]", struct=Kueue, is_repeated=True),
    Section(
        path="clusters[kueue].flavors.*",
        header="[clusters.flavors.NAME]",
        struct=Flavor,
        is_repeated=True,
    ),
)


def _toml(field: msgspec.structs.FieldInfo) -> str:
    match field.default:
        case msgspec.NODEFAULT:
            # A default that can be changed is made anew each time: here only tables are so.
            return '"..."' if field.default_factory is msgspec.NODEFAULT else "{}"
        case None:
            return "..."
        case bool() as value:
            return str(value).lower()
        case str() as value:
            return f'"{value}"'
        case tuple() as value:
            return str(list(value))
        case value:
            return str(value)


def _in_words(message: str) -> str:
    """Turn msgspec's sentence around: the field first, as people write it."""
    what, _, path = message.partition(" - at `$")
    field = path.removesuffix("`").lstrip(".").replace("[...]", "[]")
    return f"{field}: {what}" if field else what
