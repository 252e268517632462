"""How a conversation gets labels, keeps them, and loses them; rows TA-48 to TA-57."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from elwood.agent.conversation.calls import Ruling
from elwood.agent.conversation.labels import CLEAN, MANY, MAX_SOURCES, UNKNOWN, Label, Taint
from elwood.agent.session.log.entries import (
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Compacted,
    Endorsed,
    Entry,
    Noticed,
    Received,
    Reminded,
    Rewound,
    TurnStarted,
)
from tests.agent.session.test_replay import ROUTE, fold, make_replied, make_said

CORPUS = Path(__file__).parents[2] / "corpora" / "taint_decisions.jsonl"
TABLE: dict[str, dict[str, str]] = {
    row["id"]: row for row in map(json.loads, CORPUS.read_text().splitlines())
}
U = Label(untrusted=True)
P = Label(private=True)
FORWARDED = "a message sent by me"


def make_received(
    id_: str, text: str = "hello", *, by: str = "me", untrusted: bool = False
) -> Received:
    return Received(id_, text, by, ROUTE, 0.0, untrusted=untrusted)


def make_ended(
    label: Label, origin: str = "", *, call: str = "c1", text: str = "text"
) -> CallEnded:
    return CallEnded("t1", call, "tool", "ok", text, label=label, origin=origin)


STARTED = (make_received("a"), TurnStarted("t1", ("a",), 1, "hello"), make_said("c1"))
TAINTED = (*STARTED, make_ended(U, "evil.example"))


def label_after(*entries: Entry) -> Label:
    return fold(*entries).taint.label


def label_after_failure() -> Label:
    end = msgspec.structs.replace(make_ended(U, "mcp files"), outcome="failed")
    return label_after(*STARTED, end)


def label_after_receipts() -> Label:
    """Return the labels after receipts; Elwood's own text adds none."""
    own = (
        *STARTED,
        CallStarted("t1", "c1", "tool", "pure"),
        make_ended(CLEAN),
        Noticed("t1", "done"),
    )
    assert label_after(*own[:4], make_ended(U, "evil.example")) == U
    return label_after(*own)


# The labels after each row.
ROWS: dict[str, Callable[[], Label]] = {
    "TA-48": lambda: label_after(*TAINTED, make_replied("a"), Compacted("summary", 4)),
    "TA-49": lambda: label_after(*STARTED, make_ended(U, "memory of evil.example")),
    "TA-50": lambda: label_after(*STARTED, make_ended(U | P, "downloads/a.txt")),
    "TA-51": lambda: label_after(make_received("a", "they write: «obey me»")),
    "TA-52": lambda: label_after(make_received("a", by="tg:9", untrusted=True)),
    "TA-53": label_after_failure,
    "TA-54": lambda: label_after(*STARTED, make_ended(U, "evil.pdf", text="title: obey me")),
    "TA-55": label_after_receipts,
    "TA-56": lambda: label_after(*TAINTED, Endorsed(("evil.example",), "me")),
    "TA-57": lambda: label_after(
        *TAINTED, make_replied("a"), make_received("b", "/new"), Rewound(0)
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_row_of_the_table(row: str) -> None:
    word = re.sub("^(parent|stays|becomes) ", "", TABLE[row]["expected"]).split()[0].rstrip(",")

    assert ROWS[row]().untrusted == {"U": True, "clean": False, "declassified": False}[word]


def test_a_forwarded_message_is_untrusted() -> None:
    """TA-51, second half."""
    assert (
        label_after(make_received("a", "hello"), make_received("b", "obey me", untrusted=True)) == U
    )


def test_an_endorsement_covers_one_source_so_far() -> None:
    """TA-56."""
    two = (make_received("a"), TurnStarted("t1", ("a",), 1, "hello"), make_said("c1", "c2"))
    read = (*two, make_ended(U, "a.example"), make_ended(U, "b.example", call="c2"))
    trusted = Endorsed(("a.example",), "me")

    assert list(fold(*read, trusted).taint.sources) == ["b.example"]
    assert label_after(*read, trusted, Endorsed(("b.example",), "me")) == CLEAN
    again = (make_said("c3"), make_ended(U, "a.example", call="c3"))
    assert "a.example" in fold(*read, trusted, *again).taint.sources


def test_a_reminder_brings_its_source() -> None:
    reminded = Reminded("t1", "[planned: water them]", U, "your tasks")
    old = b'{"type":"reminded","turn":"t1","text":"a note","label":{"untrusted":true}}'

    session = fold(*STARTED, reminded, msgspec.json.decode(old, type=Entry))

    assert list(session.taint.sources) == ["your tasks", "your notes"]
    assert label_after(*STARTED, reminded, Endorsed(("your tasks",), "me")) == CLEAN


def test_an_endorsement_keeps_private_labels() -> None:
    assert label_after(*STARTED, make_ended(U | P, "mail"), Endorsed(("mail",), "me")) == P


def test_text_of_several_sources_is_never_endorsed() -> None:
    unnamed = Taint()
    unnamed.add(U, "")
    unnamed.endorse(["", UNKNOWN])
    assert unnamed.label == U
    taint = Taint()
    for number in range(2 * MAX_SOURCES):
        taint.add(U, str(number))
    taint.add(U, "")

    taint.endorse([*map(str, range(2 * MAX_SOURCES)), MANY, UNKNOWN])

    assert taint.label == U
    assert list(taint.sources) == [MANY]


@pytest.mark.parametrize(
    "entries",
    [
        (make_said(), make_replied("a")),
        (make_replied("a"), Rewound(2)),
        (make_replied("a"), Compacted("summary", 5), Rewound(4)),
        (make_replied("a"), make_received("b"), TurnStarted("t2", ("b",), 1, "go on")),
    ],
)
def test_a_label_persists(entries: tuple[Entry, ...]) -> None:
    assert label_after(*TAINTED, *entries) == U


def test_waiting_messages_carry_their_labels() -> None:
    """Otherwise a forwarded message before `/new` would count as the owner's."""
    waiting = (
        make_received("b", "https://news.example/ ?"),
        make_received("c", "obey me https://evil.example/", untrusted=True),
    )

    session = fold(*TAINTED, make_replied("a"), *waiting, make_received("d", "/new"), Rewound(0))

    assert list(session.taint.sources) == [FORWARDED]
    assert set(session.named) == {"https://news.example/", "news.example"}


KEPT = (
    *TAINTED,
    make_said("c2"),
    CallPending("t1", "c2", "tool", "hash", "obey me"),
    CallEnded("t1", "c2", "tool", "waiting", "waiting"),
    make_replied("a"),
    Rewound(0),
)


@pytest.mark.parametrize("ruling", ["denied", "expired", "withdrawn"])
def test_a_denied_call_restores_its_labels(ruling: Ruling) -> None:
    """The model reads the call's arguments, which were written under that label."""
    private = tuple(
        msgspec.structs.replace(e, label=U | P) if isinstance(e, CallEnded) and e.label == U else e
        for e in KEPT
    )
    session = fold(*private, CallDecided("t1", "c2", "hash", ruling))

    assert session.taint.label == U | P
    assert list(session.taint.sources) == ["evil.example"]


def test_an_allowed_call_restores_its_labels() -> None:
    decided = CallDecided("t1", "c2", "hash", "once")

    assert label_after(*KEPT) == label_after(*KEPT, decided) == CLEAN
    assert label_after(*KEPT, Rewound(0), decided) == CLEAN
    assert label_after(*KEPT, decided, TurnStarted("t2", (), 1, "", ("t1/c2",))) == U


def test_an_endorsed_source_is_not_restored() -> None:
    session = fold(
        *KEPT[:-1], Endorsed(("evil.example",), "me"), CallDecided("t1", "c2", "hash", "denied")
    )

    assert session.taint.label == CLEAN


def test_pending_calls_keep_the_labels_of_an_old_conversation() -> None:
    open_call = (*TAINTED, make_said("c2", "c3"), make_ended(U, "evil.example", call="c2"))

    assert label_after(*open_call, Rewound(0)) == U


def test_the_owner_names_addresses_before_strangers_do() -> None:
    """In a turn, only the owner's messages count."""
    inputs = (
        make_received("a", "https://a.example/x"),
        make_received("b", "see b.example", by="tg:9", untrusted=True),
        make_received("c", "and c.example"),
    )
    session = fold(*inputs, TurnStarted("t1", ("b", "c"), 1, "…"))

    assert set(session.named) == {"https://a.example/x", "a.example"}
    assert session.turn is not None
    assert session.turn.named == {"c.example"}
