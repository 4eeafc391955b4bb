"""Everything that can go wrong here, as one tree.

ReplicatorError
    StoreError            the store, not the content
        StoreUnreachable      it does not answer, or its root is not there
        StoreFull             no space, or over quota
        StoreForbidden        read-only, or no permission
    NameRefused           a name that could climb out of its place, or cannot be kept everywhere
    NotFound              nothing of that name
    Changed               the source is no longer what was read or described
    Incomplete            not a complete checkpoint, or not a replica
    Corrupt               bytes that are not those of their checksum
    Conflict              the destination holds a replica of other content under the same path
    TooLarge              over a limit of this package
    Cancelled             the caller asked to stop
    RegistryError         a registry of images, not the content
        RegistryUnreachable   it does not answer, was cut off, or is out of order
        RegistryBusy          it asks for patience: a quota, a limit of requests
        RegistryRefused       it will not do it, or does not keep to the protocol
        LoginRefused          it wants another login, or the login may not do this
    ImageMissing          no such image, or not one that this login may see
    PlatformMissing       the image is there, and not for this architecture
    ImageRefused          what lies under the name is no image that can be copied

Each carries a stable ``reason`` for logs and events, and ``can_retry``: whether the same call can
succeed later without anybody's help.
"""

from typing import ClassVar


class ReplicatorError(Exception):
    """Root of the tree. ``name`` is the object or path it is about."""

    reason: ClassVar[str] = "REPLICATION_FAILED"
    can_retry: ClassVar[bool] = False

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(f"{name}: {sentence}")
        self.name = name
        self.sentence = sentence


class StoreError(ReplicatorError):
    """The store could not do it; nothing is said about the content."""

    reason = "STORE_FAILED"
    can_retry = True


class StoreUnreachable(StoreError):
    """The store does not answer. What it holds is unknown, which is not the same as nothing."""

    reason = "STORE_UNREACHABLE"


class StoreFull(StoreError):
    """There is no room for the object."""

    reason = "STORE_FULL"


class StoreForbidden(StoreError):
    """The store is read-only or permits it to others only; somebody has to change that."""

    reason = "STORE_FORBIDDEN"
    can_retry = False


class NameRefused(ReplicatorError):
    """A name that is not safe to use as a path or an object name."""

    reason = "NAME_REFUSED"


class NotFound(ReplicatorError):
    """The object is not in the store."""

    reason = "NOT_FOUND"


class Changed(ReplicatorError):
    """The source changed while it was read, or since it was described."""

    reason = "SOURCE_CHANGED"


class Incomplete(ReplicatorError):
    """A checkpoint without its marker, with a marker that does not hold, or with files missing."""

    reason = "CHECKPOINT_INCOMPLETE"


class Corrupt(ReplicatorError):
    """The bytes read are not those that the checksum names."""

    reason = "CONTENT_CORRUPT"


class Conflict(ReplicatorError):
    """Two different contents claim one path. Neither is touched; a person has to look."""

    reason = "REPLICA_CONFLICT"


class TooLarge(ReplicatorError):
    """Over a limit that this package keeps."""

    reason = "TOO_LARGE"


class Cancelled(ReplicatorError):
    """Stopped at the caller's wish. What was copied stays and is used by the next attempt."""

    reason = "CANCELLED"
    can_retry = True


class RegistryError(ReplicatorError):
    """The registry could not do it; nothing is said about the image."""

    reason = "REGISTRY_FAILED"


class RegistryUnreachable(RegistryError):
    """The registry does not answer, or not to the end. What it holds is unknown."""

    reason = "REGISTRY_UNREACHABLE"
    can_retry = True


class RegistryBusy(RegistryError):
    """The registry asks for patience. ``retry_after_s`` is for how long, None when it is silent."""

    reason = "REGISTRY_BUSY"
    can_retry = True

    def __init__(self, name: str, sentence: str, *, retry_after_s: float | None) -> None:
        super().__init__(name, sentence)
        self.retry_after_s = retry_after_s


class RegistryRefused(RegistryError):
    """The registry will not do it (it is read-only), or answers what the protocol does not know."""

    reason = "REGISTRY_REFUSED"


class LoginRefused(RegistryError):
    """The registry wants a login, refuses the one that it was given, or permits it less."""

    reason = "LOGIN_REFUSED"


class ImageMissing(ReplicatorError):
    """There is no image of that name, or none that this login may see: registries do not say."""

    reason = "IMAGE_MISSING"


class PlatformMissing(ReplicatorError):
    """The image exists for other platforms only."""

    reason = "PLATFORM_MISSING"


class ImageRefused(ReplicatorError):
    """It is no image, or one beyond the limits of this package, or it contradicts itself."""

    reason = "IMAGE_REFUSED"
