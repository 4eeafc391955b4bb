"""Pod profiles: what ops lay over every gang of a flavor. Pure.

The rule: what a run asks for never overrides a profile, and what a profile opens that is closed
without it is said in sentences. How one is read from a region's configuration and what is refused
is in ``profile_rules``. Read ``Profile`` first, then ``widenings``.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Label = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")]
Path = Annotated[str, Meta(pattern=r"^(/[A-Za-z0-9._-]+)+\Z", max_length=512)]
Text = Annotated[str, Meta(max_length=4096)]
Name = Annotated[str, Meta(min_length=1, max_length=317)]
Pairs = dict[Name, Text]
Bytes = Annotated[int, Meta(ge=1, le=1 << 50)]
Millis = Annotated[int, Meta(ge=1, le=10_000_000)]
Uid = Annotated[int, Meta(ge=1, le=2_000_000_000)]
Seconds = Annotated[float, Meta(ge=1, le=86_400)]
Port = Annotated[int, Meta(ge=1, le=65_535)]


class Toleration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Machines with this taint will do. ``value`` empty: whatever its value is."""

    key: Name
    value: Text = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


class Volume(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A directory that each process of the gang finds at ``mount_path``.

    ``claim`` is a PersistentVolumeClaim of the namespace (Filestore and every other shared disk
    come so), ``bucket`` one of Cloud Storage through gcsfuse, ``secret`` a Secret of the namespace,
    which is only read, ``host_path`` a directory of the machine, ``scratch_bytes`` and
    ``memory_bytes`` are empty at the start and gone with the process; just one of them is set.
    ``options`` are gcsfuse's mount options.
    """

    name: Label
    mount_path: Path
    claim: Text = ""
    bucket: Text = ""
    secret: Text = ""
    host_path: Text = ""
    scratch_bytes: Bytes | None = None
    memory_bytes: Bytes | None = None
    options: Text = ""
    is_read_only: bool = False


class Sidecar(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A process of ops beside each process of the gang: up before it, gone after it.

    ``volumes`` are those of the profile that it is shown too, by name.
    """

    name: Label
    image: Name
    command: tuple[Text, ...] = ()
    args: tuple[Text, ...] = ()
    env: Pairs = {}
    volumes: tuple[Label, ...] = ()
    cpu_millis: Millis
    memory_bytes: Bytes
    capabilities: tuple[Name, ...] = ()
    runs_as_root: bool = False
    is_privileged: bool = False


class Reach(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a gang may connect to beside itself; ``ports`` empty means every port."""

    cidr: Name
    ports: tuple[Port, ...] = ()


class Profile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every gang of a flavor gets. Sizes in bytes, cpu in thousandths, durations in seconds.

    ``store`` is where a process finds its region's store, if that is a directory; it lies in one of
    ``volumes``. ``store_tokens`` is the file of the token that opens it, if it is a bucket (empty:
    Google's metadata server has one), which somebody keeps fresh.
    ``cpu_millis`` and ``memory_bytes`` are for runs that ask for none (None: they get no bound).
    ``shm_bytes`` None: half of the memory. ``reach`` has to hold the store, if it is reached over
    the network from within the gang, as a file system of the machine is not.
    ``preemption_window_s`` is from the notice to the end of a process when its machine is taken
    away (None: the capacity type's usual one). ``topology_level`` is the node label that says which
    machines stand close together. ``interpreter`` is what runs the launcher in the run's image.
    """

    store: Path | Literal[""] = ""
    store_tokens: Path | Literal[""] = ""
    volumes: tuple[Volume, ...] = ()
    reach: tuple[Reach, ...] = ()
    shm_bytes: Bytes | None = None
    cpu_millis: Millis | None = None
    memory_bytes: Bytes | None = None
    accelerator_resource: Name = "nvidia.com/gpu"
    extra_resources: dict[Name, Annotated[int, Meta(ge=1, le=1_000_000)]] = {}
    env: Pairs = {}
    annotations: Pairs = {}
    sidecars: tuple[Sidecar, ...] = ()
    node_selector: Pairs = {}
    tolerations: tuple[Toleration, ...] = ()
    topology_level: Text = ""
    preemption_window_s: Seconds | None = None
    image_pull_secrets: tuple[Name, ...] = ()
    runtime_class: Text = ""
    interpreter: Name = "python3"
    user: Uid = 1000
    group: Uid = 1000
    is_root_read_only: bool = False
    # What follows opens something; ``widenings`` says what.
    runs_as_root: bool = False
    capabilities: tuple[Name, ...] = ()
    is_seccomp_off: bool = False
    is_on_host_network: bool = False


class Profiles(Struct, frozen=True, kw_only=True):
    """The profiles of one cluster: each flavor's own, and the one of all others."""

    default: Profile
    flavors: dict[str, Profile]

    def of(self, flavor: str) -> Profile:
        """Return a flavor's profile."""
        return self.flavors.get(flavor, self.default)


def widenings(profile: Profile) -> tuple[str, ...]:
    """Say what the profile opens that is closed without it, a sentence each; empty: nothing."""
    return (*_of_gang(profile), *(line for one in profile.sidecars for line in _of_sidecar(one)))


def _of_gang(profile: Profile) -> list[str]:
    said = []
    if profile.runs_as_root:
        said.append(f"Its processes run as root. {_REFUSED}")
    if profile.capabilities:
        said.append(f"Its processes keep the rights {_list(profile.capabilities)}. {_REFUSED}")
    if profile.is_seccomp_off:
        said.append(f"Its processes may make every system call. {_REFUSED}")
    if profile.is_on_host_network:
        said.append(
            f"Its processes are in their machine's own network: no enclave holds them. {_REFUSED}"
        )
    for volume in profile.volumes:
        if volume.host_path:
            how = "read" if volume.is_read_only else "write"
            said.append(f"Its processes {how} {volume.host_path} of their machine. {_REFUSED}")
    for reach in profile.reach:
        ports = f"ports {_list(tuple(map(str, reach.ports)))}" if reach.ports else "every port"
        said.append(f"Its processes reach {reach.cidr}, {ports}.")
    return said


def _of_sidecar(sidecar: Sidecar) -> list[str]:
    said = []
    if sidecar.is_privileged:
        said.append(f"{sidecar.name} beside it has every right on its machine. {_REFUSED}")
    if sidecar.runs_as_root:
        said.append(f"{sidecar.name} beside it runs as root. {_REFUSED}")
    if sidecar.capabilities:
        said.append(f"{sidecar.name} beside it keeps {_list(sidecar.capabilities)}. {_REFUSED}")
    return said


def is_restricted(profile: Profile) -> bool:
    """Whether a namespace that enforces the pod security standard ``restricted`` admits it."""
    return not any(line.endswith(_REFUSED) for line in widenings(profile))


_REFUSED = "A namespace under pod-security: restricted does not admit it."


def _list(words: tuple[str, ...]) -> str:
    return ", ".join(words)


def find_volume(profile: Profile) -> Volume | None:
    """Return the volume that holds the region's store, None when none does."""
    return volume_of(profile, profile.store)


def volume_of(profile: Profile, path: str) -> Volume | None:
    """Return the volume that holds a path, None when none does."""
    holds = [v for v in profile.volumes if is_within(path, v.mount_path)]
    return max(holds, key=lambda volume: len(volume.mount_path), default=None)


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder, or something in it."""
    return f"{path}/".startswith(f"{folder}/")
