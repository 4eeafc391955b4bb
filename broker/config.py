"""What brokerd is told: a TOML file whose every field is documented here, and the defaults.

The rule: a field that is not known is refused by name, a value that cannot work is refused by its
dotted path, and nothing is read from the environment but where the file and the data are.
``FIELDS`` documents each field; ``commented`` prints the file with all defaults. Read ``Config``
first.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

MAX_CONFIG_BYTES = 1 << 20
Pause = Annotated[float, Meta(ge=0.05, le=3600)]
Days = Annotated[float, Meta(ge=0.01, le=36_500)]
Bytes = Annotated[int, Meta(ge=1024, le=1 << 40)]


class ConfigError(Exception):
    """The configuration cannot be used; the sentence names the field."""


class _Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all sections share: they are values, and know their fields."""


class Server(_Section, frozen=True, kw_only=True):
    """Where the API is served."""

    address: str = ""


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


class Cluster(_Section, frozen=True, kw_only=True):
    """One cluster that runs may go to. Its name, its region and its store are in ``world``."""

    kind: Literal["local"] = "local"
    directory: str
    world: str


class Config(_Section, frozen=True, kw_only=True):
    """The whole file. No clusters named: the embedded default of three regions."""

    server: Server = Server()
    data: Data = Data()
    log: Log = Log()
    metrics: Metrics = Metrics()
    loops: Loops = Loops()
    clusters: tuple[Cluster, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what contradicts itself. Raises ValueError, which decoding reports."""
        directories = [cluster.directory for cluster in self.clusters]
        if len(set(directories)) != len(directories):
            raise ValueError("two clusters have one directory")
        for number, cluster in enumerate(self.clusters):
            for what in ("directory", "world"):
                if not Path(getattr(cluster, what)).is_absolute():
                    raise ValueError(f"clusters[{number}].{what} is not an absolute path")


FIELDS: dict[str, str] = {
    "server.address": "unix:/PATH, or HOST:PORT on loopback; empty: brokerd.sock in the data"
    " directory. Any other address is refused as long as there is no authentication.",
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
    "clusters[].kind": "local: an embedded cluster on this machine.",
    "clusters[].directory": "Where the embedded cluster keeps its state.",
    "clusters[].world": "Its own file: its name, region, store, queues and flavors.",
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
        return msgspec.convert(tomllib.loads(data.decode()), Config)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source} is not UTF-8 text") from error
    except RecursionError as error:
        raise ConfigError(f"{source} is nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {_in_words(str(error))}") from error


def commented() -> str:
    """Return the file with every field, its meaning and its default, all commented out."""
    lines = ["# brokerd's configuration. Every field, with its default.", ""]
    for section, fields in _sections():
        lines.append(f"[[{section[:-2]}]]" if section.endswith("[]") else f"[{section}]")
        if section.endswith("[]"):
            lines[-1] = f"# {lines[-1]}"
        for field, default in fields:
            lines.append(f"# {FIELDS[f'{section}.{field}']}")
            lines.append(f"# {field} = {default}")
        lines.append("")
    return "\n".join(lines)


def _sections() -> list[tuple[str, list[tuple[str, str]]]]:
    sections = []
    for top in msgspec.structs.fields(Config):
        struct = Cluster if top.name == "clusters" else type(top.default)
        name = f"{top.name}[]" if top.name == "clusters" else top.name
        fields = [(f.name, _toml(f.default)) for f in msgspec.structs.fields(struct)]
        sections.append((name, fields))
    return sections


def _toml(value: object) -> str:
    if value is msgspec.NODEFAULT:
        return '"..."'
    return f'"{value}"' if isinstance(value, str) else str(value)


def _in_words(message: str) -> str:
    """Turn msgspec's sentence around: the field first, as people write it."""
    what, _, path = message.partition(" - at `$")
    field = path.removesuffix("`").lstrip(".").replace("[...]", "[]")
    return f"{field}: {what}" if field else what
