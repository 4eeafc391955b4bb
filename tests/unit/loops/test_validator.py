"""What is missing for an intent is named by its field."""

from dataclasses import dataclass, replace

import pytest

from broker.loops.validator import problem
from broker.model.intent import Input, Intent
from broker.model.problem import Problem
from broker.model.reasons import Reason
from tests.builders import make_intent, make_terms, make_workload

DIGEST = "d" * 64


@dataclass(frozen=True)
class Uploaded:
    """Bundles that were uploaded."""

    digests: tuple[str, ...] = ()

    def size_bytes(self, digest: str) -> int | None:
        return 1 if digest in self.digests else None


NO_BUNDLES = Uploaded()


def found(
    intent: Intent, uploaded: Uploaded = NO_BUNDLES, asking: frozenset[str] = frozenset()
) -> Problem | None:
    return problem(intent, uploaded, asking, None)


def test_an_intent_that_needs_nothing_lacks_nothing() -> None:
    assert found(make_intent()) is None


def test_a_bundle_must_have_been_uploaded() -> None:
    intent = make_intent(workload=make_workload(bundle_digest=DIGEST))
    missing = found(intent)
    assert missing is not None
    assert (missing.field, missing.reason) == (
        "intent.workload.bundle_digest",
        Reason.BUNDLE_MISSING,
    )
    assert found(intent, Uploaded((DIGEST,))) is None


def test_an_image_is_needed_where_a_cluster_that_is_accepted_runs_images_only() -> None:
    asking = frozenset({"alpha"})
    missing = found(make_intent(), asking=asking)
    assert missing is not None
    assert (missing.field, missing.reason) == ("intent.workload.image", Reason.IMAGE_REQUIRED)
    elsewhere = make_intent(terms=make_terms(regions=("beta",)))
    assert found(elsewhere, asking=asking) is None
    pinned = "registry/x@sha256:" + "0" * 64
    with_image = make_intent(workload=make_workload(image=pinned))
    assert found(with_image, asking=asking) is None


@pytest.mark.parametrize("image", ["registry/x", "registry/x:v1", "registry/x@sha256:0"])
def test_an_image_is_named_by_its_digest_where_a_cluster_runs_images(image: str) -> None:
    intent = make_intent(workload=make_workload(image=image))
    refused = found(intent, asking=frozenset({"alpha", "beta"}))
    assert refused is not None
    assert (refused.field, refused.reason) == ("intent.workload.image", Reason.INVALID_FIELD)
    assert "runs in alpha, beta" in refused.message
    assert found(intent, asking=frozenset()) is None


@pytest.mark.parametrize(
    ("uri", "is_fine"),
    [
        ("gs://bucket/train", True),
        ("file:///data/train", True),
        ("https://example.org/x.tar", True),
        ("train.txt", False),
        ("gs://", False),
        ("", False),
    ],
)
def test_an_input_names_a_place(uri: str, is_fine: bool) -> None:
    good = Input(uri="gs://a/b", size_bytes=1, regions=(), remote_reads=True)
    workload = make_workload(inputs=(good, replace(good, uri=uri)))
    missing = found(make_intent(workload=workload))
    assert (missing is None) is is_fine
    if missing is not None:
        assert missing.field == "intent.workload.inputs[1].uri"
