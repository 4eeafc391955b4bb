"""What an image was found to be at the submit is what every start of the run has."""

from broker.history.codec import decode, decode_run, encode, encode_run
from broker.history.commands import AcceptRun
from broker.history.events import Validated
from broker.model.image import PinnedImage
from broker.model.states import RunState
from broker.service.sentences import sentence_for
from tests.builders import Story

DIGEST = f"sha256:{'a' * 64}"
IMAGE = PinnedImage(name=f"registry.example/team/llm@{DIGEST}", size_bytes=7_000_000_000)


def test_a_run_keeps_what_its_image_was_found_to_be() -> None:
    story = Story()
    story.do(story.submit, AcceptRun(image=IMAGE))
    assert (story.run.state, story.run.image) == (RunState.QUEUED, IMAGE)
    assert decode_run(encode_run(story.run)).image == IMAGE


def test_a_second_word_on_its_image_changes_nothing() -> None:
    later = PinnedImage(name=IMAGE.name.replace("a" * 64, "b" * 64), size_bytes=1)
    story = Story()
    story.do(story.submit, AcceptRun(image=IMAGE), AcceptRun(image=later))
    assert story.run.image == IMAGE


def test_a_run_of_before_has_no_image_of_its_own() -> None:
    assert decode("Validated", b"{}") == Validated(image=None)


def test_what_was_written_of_an_image_loads_for_ever() -> None:
    written = b'{"image": {"name": "r.example/llm@sha256:0", "size_bytes": 7}}'
    image = PinnedImage(name="r.example/llm@sha256:0", size_bytes=7)
    assert decode("Validated", written) == Validated(image=image)
    assert decode(*encode(Validated(image=IMAGE))) == Validated(image=IMAGE)


def test_the_event_says_what_is_run() -> None:
    assert DIGEST in sentence_for(Validated(image=IMAGE))
    assert "runs" not in sentence_for(Validated())
