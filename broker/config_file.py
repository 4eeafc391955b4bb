"""The configuration file with every field, its meaning and its default, as brokerd prints it.

The rule: a field has its meaning written down here, or a test fails. Read ``commented`` first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from broker.config import Config, Flavor, Kueue, Local
from broker.config_registry import Registry

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
    "prices.egress": "US dollars that a GiB costs on its way between two regions, where the list"
    " that comes with the program is not right, such as"
    ' { per_gib = 0.02, source = "europe", destination = "us-central1" }; a name may be cut short'
    " at a hyphen, what is left out fits everything, and of several that fit the one that names"
    " most holds. A pair that nobody has a price of costs as much as the dearest of the list.",
    "buckets.endpoint": "Who serves the buckets that are regions' stores, for brokerd and gangs;"
    " empty: Google.",
    "buckets.tokens": "Where brokerd has the token that opens them: a file that somebody keeps"
    " fresh, or an address that answers as the metadata server; empty: Application Default"
    " Credentials. Gangs have their own, see store_tokens of a pod profile.",
    "clusters[local].kind": "local: an embedded cluster on this machine.",
    "clusters[local].directory": "Where the embedded cluster keeps its state.",
    "clusters[local].world": "Its own file: its name, region, store, queues and flavors.",
    "clusters[kueue].kind": "kueue: a Kubernetes cluster with Kueue and JobSet.",
    "clusters[kueue].name": "What users and logs call the cluster.",
    "clusters[kueue].region": "The region that it stands in. Clusters of one region share a store.",
    "clusters[kueue].namespace": "The namespace in which gangs are made.",
    "clusters[kueue].store": "The region's store: a directory, as brokerd reaches it, or"
    " gs://BUCKET/FOLDER, which it and the gangs reach as it is.",
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
    "clusters[kueue].priority_classes": "The WorkloadPriorityClasses for gangs. In the lowest gangs"
    " wait for a grant: its value should be below all that others use, so that it preempts nobody."
    " A granted gang has the highest of the rest whose value is not above its run's priority, or"
    " else the lowest of them; one that is not named is never taken. None: those that `broker"
    " regions bootstrap` made, or else no class at all, so that gangs that wait preempt as those"
    " that train do.",
    "clusters[kueue].allows_host_paths": "Whether profiles may show gangs directories of nodes.",
    "clusters[kueue].store_reach": "Where the store is on the network, for gangs that reach it over"
    " the network from within, as a bucket or NFS: their enclaves let that through. Such as"
    ' { cidr = "10.8.0.2/32", ports = [2049] }, or where Google answers for your network, as'
    ' { cidr = "199.36.153.8/30", ports = [443] }; without ports it is every port.',
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
    "registries.prefix": "Where its images' names begin: a host, or a host and a path, such as"
    " europe-west4-docker.pkg.dev/acme/train. What lies under it has the same name under every"
    " other region's.",
    "registries.region": "The region whose clusters pull from it; empty: images only come from it.",
    "registries.login": "none; file: as docker login keeps it; google: the machine's own"
    " credentials, for Artifact Registry.",
    "registries.login_file": "For login = file: a config.json of docker, skopeo or a pull secret of"
    " Kubernetes. It is read again at each login.",
    "registries.token_hosts": "Further hosts that may be given the login, in exchange for tokens.",
    "registries.upload": "How it takes a layer: whole, in one request, or in chunks, which"
    " Artifact Registry refuses.",
    "registries.plain_http": "Without TLS. On loopback alone.",
    "registries.pull_bytes_per_s": "How fast a new machine of the region pulls, unpacking included:"
    " a cold start is foreseen by it.",
}


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
    struct: type[msgspec.Struct]
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
        if top.name not in ("clusters", "registries")
    ),
    Section(path="clusters[local]", header="[[clusters]]", struct=Local, is_repeated=True),
    Section(path="clusters[kueue]", header="[[clusters]]", struct=Kueue, is_repeated=True),
    Section(
        path="clusters[kueue].flavors.*",
        header="[clusters.flavors.NAME]",
        struct=Flavor,
        is_repeated=True,
    ),
    Section(path="registries", header="[[registries]]", struct=Registry, is_repeated=True),
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
