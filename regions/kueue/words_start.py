"""What the words of a start mean: machines that come or do not, images, secrets, volumes. Pure.

The rule: see ``words``.
"""

from regions.cluster import Cause
from regions.kueue.vocabulary import Word
from regions.kueue.words import Deed, Fault, Row


def _row(cause: Cause, fault: Fault, deed: Deed, sentence: str, advice: str = "") -> Row:
    return Row(cause=cause, fault=fault, deed=deed, sentence=sentence, advice=advice)


_IMAGE = Cause.IMAGE_PULL_FAILING
_PROFILE = "Compare the flavor's profile with what the cluster has."

START_ROWS: dict[Word, Row] = {
    Word.NODES_COMING: _row(
        Cause.NODES_COMING, Fault.NONE, Deed.WAITS, "Its machines are on their way"
    ),
    Word.PARTIAL_ARRIVAL: _row(
        Cause.PARTIAL_ARRIVAL,
        Fault.RESOURCE,
        Deed.MOVES,
        "Some of its machines came, and the rest cannot be had",
        "Accept other regions or capacity types, or ask for fewer machines.",
    ),
    Word.STOCKOUT: _row(
        Cause.STOCKOUT,
        Fault.RESOURCE,
        Deed.MOVES,
        "The cloud has no such machines left in these zones",
        "Accept other regions or capacity types.",
    ),
    Word.CLOUD_QUOTA_EXCEEDED: _row(
        Cause.STOCKOUT,
        Fault.RESOURCE,
        Deed.MOVES,
        "The project may not have more of these machines in the cloud",
        "Ask for more quota of the project; spot and flex share one of their own.",
    ),
    Word.POOL_AT_ITS_MAXIMUM: _row(
        Cause.STOCKOUT,
        Fault.RESOURCE,
        Deed.MOVES,
        "The cluster's pool of these machines is as large as it may become",
        "Ask the cluster's operators for a larger pool.",
    ),
    Word.NO_ADDRESSES_LEFT: _row(
        Cause.STOCKOUT,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "The cluster has no network addresses left for more machines",
        "Ask the cluster's operators for a larger range.",
    ),
    Word.NO_POOL_FITS: _row(
        Cause.NODES_COMING,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "The cluster has no pool of machines that would fit it",
        _PROFILE,
    ),
    Word.NODES_FULL: _row(
        Cause.NODES_COMING, Fault.RESOURCE, Deed.WAITS, "No machine has room for it yet"
    ),
    Word.NODES_TAINTED: _row(
        Cause.NODES_COMING,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "The machines are kept for others by a mark that it does not carry",
        "Add a toleration for the mark to the flavor's profile.",
    ),
    Word.NODES_DO_NOT_MATCH: _row(
        Cause.NODES_COMING,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "No machine that is here has the labels that it asks for",
        _PROFILE,
    ),
    Word.VOLUME_KEEPS_IT_AWAY: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "A volume that it needs is not there, or not where its machines are",
        "Look at the volumes in the flavor's profile.",
    ),
    Word.GATED_BY_OTHERS: _row(
        Cause.NODES_COMING,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "Something in the cluster holds its processes back from their machines",
        "Ask the cluster's operators who set the gate that is named.",
    ),
    Word.PODS_REFUSED: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "The cluster refuses to create its processes",
        "Ask the cluster's operators; what they are told is shown as it is.",
    ),
    Word.PODS_REFUSED_BY_SECURITY: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "The namespace's security standard does not admit its processes",
        "Close what the flavor's profile opens, or use a namespace that admits it.",
    ),
    Word.PODS_REFUSED_BY_QUOTA: _row(
        Cause.REFUSED,
        Fault.RESOURCE,
        Deed.LEAVES,
        "The namespace may not hold so much at once, beside what the queue's quota says",
        "Ask the cluster's operators for a larger limit of the namespace.",
    ),
    Word.SERVICE_ACCOUNT_MISSING: _row(
        Cause.REFUSED,
        Fault.USER,
        Deed.TRIES,
        "The service account that the run names is not there",
        "Correct service_account, or have it created in the cluster.",
    ),
    Word.PODS_STARTING: _row(
        Cause.PODS_STARTING, Fault.NONE, Deed.WAITS, "Its processes are being started"
    ),
    Word.PULLING_IMAGE: _row(
        Cause.PODS_STARTING, Fault.NONE, Deed.WAITS, "Its image is on its way to the machines"
    ),
    Word.IMAGE_NOT_FOUND: _row(
        _IMAGE,
        Fault.USER,
        Deed.TRIES,
        "The image is not in its registry",
        "Check its name and digest, and whether it was pushed or has been cleaned away.",
    ),
    Word.IMAGE_NO_RIGHT: _row(
        _IMAGE,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "The cluster may not read the image",
        "Give the machines' account the right to read it, or name a pull secret in the profile.",
    ),
    Word.IMAGE_RATE_LIMITED: _row(
        _IMAGE,
        Fault.TRANSIENT,
        Deed.MOVES,
        "The registry answers that it is asked too often",
        "Keep a copy of the image in a registry of your own.",
    ),
    Word.IMAGE_WRONG_ARCHITECTURE: _row(
        _IMAGE,
        Fault.USER,
        Deed.TRIES,
        "The image is not made for the machines' processors",
        "Build it for their architecture as well (such as linux/amd64).",
    ),
    Word.IMAGE_NAME_INVALID: _row(
        _IMAGE, Fault.USER, Deed.TRIES, "The image's name is none", "Correct it."
    ),
    Word.IMAGE_DISK_FULL: _row(
        _IMAGE,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "The machine's disk has no room for the image",
        "Make the image smaller, or ask for larger disks.",
    ),
    Word.REGISTRY_UNREACHABLE: _row(
        _IMAGE, Fault.TRANSIENT, Deed.MOVES, "The machine cannot reach the image's registry"
    ),
    Word.IMAGE_PULL_FAILING: _row(
        _IMAGE,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "The image cannot be pulled",
        "Check its name and the cluster's right to read it.",
    ),
    Word.SECRET_MISSING: _row(
        Cause.REFUSED,
        Fault.USER,
        Deed.TRIES,
        "A secret that the run names is not in this cluster",
        "Have it created in the broker's namespace, or correct its name.",
    ),
    Word.SECRET_KEY_MISSING: _row(
        Cause.REFUSED,
        Fault.USER,
        Deed.TRIES,
        "A secret has no entry under the name of the variable that is to show it",
        "Name the entry in the secret like the variable.",
    ),
    Word.CONFIG_MISSING: _row(
        Cause.PODS_STARTING,
        Fault.ORCHESTRATION,
        Deed.WAITS,
        "The launcher has not reached the cluster, or somebody removed it",
    ),
    Word.ROOT_REFUSED: _row(
        Cause.REFUSED,
        Fault.USER,
        Deed.TRIES,
        "The image runs as root, and gangs here do not",
        "Name a user in the image, or have the flavor's profile name one.",
    ),
    Word.CONTAINER_REFUSED: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "The machine cannot start its process as it was told to",
    ),
    Word.VOLUME_NOT_MOUNTED: _row(
        Cause.PODS_STARTING,
        Fault.ORCHESTRATION,
        Deed.MOVES,
        "A volume does not come up on the machine",
        "Look at the volumes in the flavor's profile.",
    ),
    Word.VOLUME_NO_RIGHT: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "The gang may not read one of its volumes",
        "Give its service account the right to the bucket or share.",
    ),
    Word.VOLUME_MISSING: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "A volume that it needs is not there",
        "Look at the volumes in the flavor's profile.",
    ),
    Word.SIDECAR_FAILING: _row(
        Cause.REFUSED,
        Fault.ORCHESTRATION,
        Deed.LEAVES,
        "A process that has to be up before the gang fails",
        "Look at the sidecars in the flavor's profile.",
    ),
    Word.SANDBOX_FAILING: _row(
        Cause.PODS_STARTING,
        Fault.TRANSIENT,
        Deed.MOVES,
        "The machine cannot set up the network of its process",
    ),
    Word.STANDING: _row(Cause.NONE, Fault.NONE, Deed.NOTHING, "All its processes are up"),
}
