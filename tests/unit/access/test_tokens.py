"""What a token is, how its file is kept, and that neither ever shows the word."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.access import book, files, issuing, lending, tokens
from broker.access.book import BookError
from broker.access.keyring import Keyring
from broker.access.tokens import ALL_TEAMS, Role, Token, digest_of
from broker.runtime.entropy import Ids

NOW_S = 1_800_000_000.0
WORD = f"brk_k3v9x0q2m7ab_{'s' * 48}"


def token(**changes: object) -> Token:
    return replace(
        Token(
            id="k3v9x0q2m7ab",
            digest=digest_of(WORD),
            team="vision",
            role=Role.MEMBER,
            actor="ann",
            created_s=NOW_S,
            expires_s=None,
        ),
        **changes,  # type: ignore[arg-type]
    )


def issued(path: Path, **changes: object) -> tuple[str, Token]:
    said: dict[str, object] = {
        "actor": "ann", "team": "vision", "role": Role.MEMBER, "now_s": NOW_S, "expires_s": None,
        "draw": Ids().text,
    }  # fmt: skip
    return issuing.issue(path, **(said | changes))  # type: ignore[arg-type]


# ---- The word -----------------------------------------------------------------------------------


def test_a_word_is_read_as_it_was_made() -> None:
    draw = Ids().text
    word = tokens.word_of(draw(tokens.ID_LENGTH), draw(tokens.SECRET_LENGTH))
    shown = tokens.read(word)
    assert shown is not None
    assert tokens.is_of(shown, token(digest=digest_of(word)))
    assert not tokens.is_of(shown, token())
    assert not tokens.is_of(shown, None)


def test_who_shows_nobodys_digest_is_nobody() -> None:
    assert not tokens.is_of(tokens.Shown(id="k3v9x0q2m7ab", digest="0" * 64), None)


@given(st.text(max_size=80) | st.text("brk_sa0", min_size=60, max_size=70))
def test_any_text_is_read_or_is_none(text: str) -> None:
    shown = tokens.read(text)
    assert shown is None or text[4:16] == shown.id


@pytest.mark.parametrize(
    "word",
    [
        "", "brk_", WORD[:-1], f"{WORD}s", WORD.upper(), f"{WORD}\n", f" {WORD}", f"{WORD}\x00",
        WORD.replace("k3", "\uff4b3"), WORD.replace("s", "ß"), WORD * 1_000, "brk__" + "s" * 48,
    ],
)  # fmt: skip
def test_what_is_nearly_a_word_is_none(word: str) -> None:
    assert tokens.read(word) is None


def test_each_role_may_do_what_the_one_before_it_may() -> None:
    reached = {(mine, needed) for mine in Role for needed in Role if mine.reaches(needed)}
    assert reached == {
        (Role.VIEWER, Role.VIEWER), (Role.MEMBER, Role.VIEWER), (Role.MEMBER, Role.MEMBER),
        (Role.OPERATOR, Role.VIEWER), (Role.OPERATOR, Role.MEMBER), (Role.OPERATOR, Role.OPERATOR),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kept", "team", "sees"),
    [
        (token(), "vision", True),
        (token(), "speech", False),
        (token(), "-", False),
        (token(team=ALL_TEAMS, role=Role.VIEWER), "speech", True),
        (token(role=Role.OPERATOR), "speech", True),
    ],
)
def test_whose_runs_are_seen(kept: Token, team: str, sees: bool) -> None:
    assert kept.sees(team) == sees


def test_a_token_is_over_at_its_very_second() -> None:
    assert not token().is_over(NOW_S * 10)
    assert not token(expires_s=NOW_S).is_over(NOW_S - 1)
    assert token(expires_s=NOW_S).is_over(NOW_S)


@pytest.mark.parametrize(
    ("name", "lent"),
    [
        ("vision", True),
        ("vision.hub", True),
        ("hub", True),
        ("wandb-key", True),
        ("vision-two", False),
        ("vision-two.hub", False),
        ("speech.hub", False),
        ("hub2", False),
        ("", False),
    ],
)
def test_what_a_run_may_name(name: str, lent: bool) -> None:
    patterns = ("hub", "wandb-*")
    assert lending.is_lent(name, "vision", token(), patterns) == lent
    assert lending.is_lent(name, "vision", token(role=Role.OPERATOR), ())


# ---- The file -----------------------------------------------------------------------------------


def test_what_was_written_is_read() -> None:
    kept = (
        token(),
        token(id="b" * 12, team=ALL_TEAMS, role=Role.VIEWER, actor="Zoë Q.", expires_s=NOW_S + 9),
        token(id="c" * 12, secrets=("hub", "wandb-*"), service_accounts=("train?r",)),
    )
    assert book.parse(book.render(kept)) == kept
    assert book.parse(book.render(())) == ()


def entry(**changes: object) -> bytes:
    """Return a file with one token, some of whose fields are otherwise."""
    (one,) = json.loads(book.render((token(),)))["tokens"]
    one = {name: value for name, value in (one | changes).items() if value is not None}
    return json.dumps({"tokens": [one]}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 200_000, b'{"tokens": 5}', b'{"token": []}',
        entry(id="K3"), entry(id=f"{'a' * 12}\n"), entry(sha256=f"{'a' * 64}\n"),
        entry(sha256=WORD), entry(sha256="A" * 64),
        entry(role=WORD), entry(role="root"), entry(team="Vision"), entry(team="a/b"),
        entry(team="-"), entry(actor=""), entry(actor="a\nb"), entry(actor="x" * 65),
        entry(actor=" a"), entry(created="2026-01-01T00:00:00"), entry(created=5),
        entry(expires="never"), entry(word=WORD), entry(**{WORD: 5}), entry(**{f"a` {WORD}": 5}),
        json.dumps({WORD: [], "tokens": []}).encode(), b"{}",
        entry(actor=None), entry(created=None), entry(secrets=["A b"]), entry(secrets=["*"] * 65),
        entry(service_accounts="*"), entry(secrets=[WORD]),
        entry()[:-2] + b"," + entry()[12:],
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_refused_and_not_shown(data: bytes) -> None:
    with pytest.raises(BookError) as caught:
        book.parse(data)
    assert WORD not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_more_tokens_than_can_be_meant_are_refused() -> None:
    many = [token(id=f"{number:a>12}") for number in map(_letters, range(book.TOKENS_MAX + 1))]
    assert len(book.parse(book.render(tuple(many[:-1])))) == book.TOKENS_MAX
    with pytest.raises(BookError):
        book.parse(book.render(tuple(many)))


def _letters(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622, 0o601])
def test_a_file_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "tokens.json"
    files.write_private(path, book.render((token(),)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(mode)
    with pytest.raises(BookError, match=rf"mode {mode:04o}\); chmod 600 "):
        book.load(path)


def test_what_is_no_file_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(files.PrivateFileError, match="is no file"):
            files.read_private(path, 10)
    (tmp_path / "long").touch(0o600)
    (tmp_path / "long").write_bytes(b"x" * 11)
    with pytest.raises(files.PrivateFileError, match="is larger than 10 bytes"):
        files.read_private(tmp_path / "long", 10)


def test_a_link_to_a_file_is_followed_and_judged_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    (tmp_path / "real").chmod(0o644)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(files.PrivateFileError, match="mode 0644"):
        files.read_private(tmp_path / "link", 10)


# ---- brokerd tokens -----------------------------------------------------------------------------


def test_what_is_lent_is_kept_with_the_token_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    _, kept = issued(path, secrets=("hub",), service_accounts=("train-*",))
    assert book.load(path) == (kept,)
    assert (kept.secrets, kept.service_accounts) == (("hub",), ("train-*",))
    with pytest.raises(BookError, match="lent by at most 64 patterns"):
        issued(path, secrets=("Hub",))


def test_a_token_is_made_shown_and_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tokens.json"
    word, kept = issued(path, expires_s=NOW_S + 60)
    _, other = issued(path, actor="bob")
    assert book.load(path) == (kept, other)
    shown = tokens.read(word)
    assert shown is not None
    assert tokens.is_of(shown, kept)
    assert word not in path.read_text()
    lines = issuing.table(book.load(path), NOW_S + 60).splitlines()
    assert lines[0].split() == list(issuing.HEADERS)
    assert "(over)" in lines[1]
    assert lines[2].endswith("never")
    assert issuing.revoke(path, kept.id) == kept
    assert book.load(path) == (other,)
    with pytest.raises(BookError, match="holds no token"):
        issuing.revoke(path, kept.id)


@pytest.mark.parametrize(
    "changes",
    [
        {"team": "Vision"}, {"team": ""}, {"actor": ""}, {"actor": "a\tb"}, {"actor": "x" * 65},
        {"team": ALL_TEAMS},
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_not_made(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(BookError):
        issued(tmp_path / "tokens.json", **changes)
    assert not (tmp_path / "tokens.json").exists()


def test_a_broken_file_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.touch(0o600)
    path.write_text("{")
    with pytest.raises(BookError):
        issued(path)
    assert path.read_text() == "{"


def test_tokens_that_are_made_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    with ThreadPoolExecutor(8) as pool:
        made = [kept for _, kept in pool.map(lambda _: issued(path), range(24))]
    assert sorted(one.id for one in book.load(path)) == sorted(one.id for one in made)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["tokens.json", "tokens.json.lock"]


# ---- The keyring --------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def test_a_start_wants_a_file_with_a_token(path: Path) -> None:
    with pytest.raises(BookError, match="is not there"):
        Keyring(path)
    files.write_private(path, book.render(()))
    with pytest.raises(BookError, match="holds no token"):
        Keyring(path)


def test_a_token_holds_as_long_as_it_is_in_the_file(path: Path) -> None:
    word, kept = issued(path)
    shown = tokens.read(word)
    assert shown is not None
    keyring = Keyring(path)
    assert keyring.find(shown, NOW_S) == kept
    issuing.revoke(path, kept.id)
    assert keyring.still_holds(kept, NOW_S)
    keyring.refresh()
    assert not keyring.still_holds(kept, NOW_S)
    assert keyring.find(shown, NOW_S) is None
    assert keyring.trouble() == ""


def test_what_a_token_may_do_is_what_the_file_says_now(path: Path) -> None:
    _, kept = issued(path)
    keyring = Keyring(path)
    files.write_private(path, book.render((replace(kept, role=Role.VIEWER),)))
    keyring.refresh()
    assert not keyring.still_holds(kept, NOW_S)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text("{"),
        lambda path: path.unlink(),
        lambda path: path.chmod(0o666),
        lambda path: path.write_text(""),
    ],
)
def test_a_file_that_is_spoiled_changes_nothing_and_is_told(
    path: Path, spoil: Callable[[Path], object]
) -> None:
    word, kept = issued(path)
    shown = tokens.read(word)
    assert shown is not None
    keyring = Keyring(path)
    spoil(path)
    keyring.refresh()
    assert keyring.find(shown, NOW_S) == kept
    assert keyring.trouble().endswith("; the tokens are those that it held before")
    files.write_private(path, book.render((kept,)))
    keyring.refresh()
    assert keyring.trouble() == ""


def test_where_an_unknown_field_stands_is_said() -> None:
    with pytest.raises(BookError, match=r"unknown field \(left out\) - at `\$.tokens\[0\]`"):
        book.parse(entry(**{WORD: 5}))


def test_a_file_that_could_not_be_read_once_is_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As it was: neither its times nor its size say that nobody has read it."""
    word, kept = issued(path)
    shown = tokens.read(word)
    assert shown is not None
    keyring = Keyring(path)
    issuing.revoke(path, kept.id)

    def too_many(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", too_many)
        for _ in range(3):
            keyring.refresh()
        assert keyring.find(shown, NOW_S) == kept
    assert len(caplog.records) == 1
    keyring.refresh()
    assert keyring.find(shown, NOW_S) is None
    assert keyring.trouble() == ""


def test_no_value_that_holds_a_token_shows_its_word(path: Path) -> None:
    word, kept = issued(path)
    shown = tokens.read(word)
    said = [repr(kept), repr(shown), path.read_text(), issuing.table((kept,), NOW_S)]
    assert [one for one in said if word[17:] in one] == []
