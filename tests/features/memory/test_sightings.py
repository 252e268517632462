"""Sightings and memories as notes: nothing is lost on the way into a file and back."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.labels import Label
from elwood.features.memory.learning import (
    KnownFact,
    Observation,
    draft_of,
    fact_of,
    observation_of,
)
from elwood.features.memory.note import (
    Draft,
    Note,
    above,
    parse,
    render,
)
from tests.features.memory.notebook import seen


def filed(draft: Draft) -> Note:
    """What is read of a draft that was written."""
    note = Note(
        draft.key,
        draft.text,
        draft.tags or (),
        draft.source,
        status=draft.status,
        label=draft.label,
        updated="1970-01-01T00:01:00+00:00",
        more=draft.more or (),
    )
    return parse(draft.key, render(note))


WORD = st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True)
SEENS = st.builds(
    Observation,
    WORD,
    st.sampled_from(["Likes tea.", "asked: yes", "---", "Mag Käse: sehr", "status: kept", "茶"]),
    st.sampled_from(["fact", "procedure", "correction"]),
    WORD,
    st.sampled_from(["", "t1", "t123"]),
    st.builds(Label, st.booleans(), st.just(True)),
    st.integers(0, 4_000_000_000).map(float),
    st.builds("{}/{}".format, WORD, st.integers(0, 10**9)),
    st.booleans(),
)


@given(SEENS)
def test_a_sighting_is_read_as_it_was_written(one: Observation) -> None:
    note = filed(draft_of(one))
    assert observation_of(note) == one
    assert (note.key, note.status, note.subject) == (one.name, "pending", one.key)
    assert note.is_observation


def test_a_sighting_that_was_put_right_by_hand_keeps_its_name() -> None:
    draft = draft_of(seen())
    edited = filed(rewritten(draft, "Likes green tea."))
    found = observation_of(edited)
    assert found is not None
    assert (found.text, found.name) == ("Likes green tea.", draft.key)


def rewritten(draft: Draft, text: str) -> Draft:
    return Draft(draft.key, text, draft.label, draft.source, status=draft.status, more=draft.more)


@pytest.mark.parametrize(
    "content",
    ["", "Likes tea.", "---\nstatus: pending\n---\nLikes tea.", "---\nabout: tea\n---\nLikes tea."],
)
def test_what_others_wrote_is_no_observation_of(content: str) -> None:
    assert observation_of(parse("seen-1", content)) is None


def test_a_sighting_whose_lines_were_broken_is_taken_for_the_worst() -> None:
    note = parse("seen-1", "---\nabout: tea\nstatus: pending\nseen: soon\nkind: odd\n---\nTea.")
    found = observation_of(note)
    assert found is not None
    assert (found.kind, found.at, found.label.untrusted, found.asked) == ("fact", 0.0, True, False)
    assert found.name == "seen-1"


@pytest.mark.parametrize("kind", ["fact", "procedure"])
def test_a_memory_is_read_as_it_was_written(kind: str) -> None:
    one = msgspec.convert(
        {"key": "tea", "text": "Green.", "kind": kind, "label": {}, "at": 60.0, "source": "tg-1"},
        KnownFact,
    )
    private = msgspec.structs.replace(one, label=Label(private=True))
    assert fact_of(filed(draft_of(one))) == private


def test_what_people_wrote_above_a_sighting_stays() -> None:
    old = ("# mine", *(draft_of(seen()).more or ()))
    new = draft_of(seen(asked=True)).more or ()
    assert above(old, new) == ("# mine", *new)
