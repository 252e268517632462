import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.identity import (
    Addressed,
    Heard,
    House,
    Ignored,
    Mark,
    identify,
    is_allowed,
    session_of,
)
from elwood.foundation.text.lines import one_line

GROUP = -100123
HOUSE = House(
    bot=7,
    username="elwood_bot",
    owners=frozenset({1}),
    groups=frozenset({GROUP, -5}),
    moved={-100999: -5},
)


def group(text: str, *marks: Mark, **more: object) -> Ignored | Addressed:
    heard = Heard(chat=GROUP, private=False, sender=2, text=text, marks=marks)
    for name, value in more.items():
        object.__setattr__(heard, name, value)
    return identify(heard, HOUSE)


@pytest.mark.parametrize(
    ("text", "marks", "expected"),
    [
        ("hello", (), None),
        ("@elwood_bot hello", (), None),  # a name in the text alone is no mention
        ("@elwood_bot hello", (Mark("mention", 0, 11),), "hello"),
        ("@ELWOOD_bot hello", (Mark("mention", 0, 11),), "hello"),
        ("@elwood_bot2 hello", (Mark("mention", 0, 12),), None),
        ("hey 😀 @elwood_bot go", (Mark("mention", 7, 11),), "hey 😀 go"),
        ("Elwood, go", (Mark("text_mention", 0, 6, 7),), ", go"),
        ("Elwood, go", (Mark("text_mention", 0, 6, 8),), None),
        ("/status@elwood_bot", (Mark("bot_command", 0, 18),), "/status"),
        ("/status@other_bot", (Mark("bot_command", 0, 17),), None),
        ("/status", (Mark("bot_command", 0, 7),), None),
        ("@elwood_bot", (Mark("mention", 0, 11),), "@elwood_bot"),
        ("x", (Mark("mention", -4, 900),), None),
    ],
)
def test_in_a_group_only_a_real_mention_addresses_us(
    text: str, marks: tuple[Mark, ...], expected: str | None
) -> None:
    found = group(text, *marks)
    assert (found.text if isinstance(found, Addressed) else None) == expected


def test_rights_hang_on_the_id_and_never_on_the_name() -> None:
    owner = identify(Heard(chat=1, private=True, sender=1, name="Eve"), HOUSE)
    other = identify(Heard(chat=1, private=True, sender=2, name="Ann"), HOUSE)
    assert isinstance(owner, Addressed)
    assert isinstance(other, Addressed)
    assert (owner.principal.owner, other.principal.owner) == (True, False)


def test_an_answer_to_us_is_for_us_and_one_to_others_is_not() -> None:
    assert isinstance(group("yes", answers=7), Addressed)
    assert isinstance(group("yes", answers=8), Ignored)


def test_a_moved_group_keeps_its_session_and_its_place() -> None:
    assert session_of(-100999, None, HOUSE.moved) == "tg--5"
    assert session_of(-100999, 3, HOUSE.moved) == "tg--5-3"
    assert is_allowed(-100999, HOUSE)
    assert not is_allowed(-6, HOUSE)


@pytest.mark.parametrize("sender", [None, 2])
def test_what_no_person_wrote_is_ignored(sender: int | None) -> None:
    heard = Heard(chat=1, private=True, sender=sender, anonymous=sender is not None, text="x")
    assert isinstance(identify(heard, HOUSE), Ignored)


MARKS = st.builds(
    Mark,
    st.sampled_from(["mention", "text_mention", "bot_command", "bold"]),
    st.integers(-5, 40),
    st.integers(-5, 40),
    st.sampled_from([None, 7, 8]),
)


@given(st.text(max_size=30), st.lists(MARKS, max_size=5))
def test_no_marks_break_it_or_add_text(text: str, marks: list[Mark]) -> None:
    heard = Heard(chat=1, private=True, sender=1, text=text + "@elwood_bot", marks=tuple(marks))
    found = identify(heard, HOUSE)
    assert isinstance(found, Addressed)
    assert len(found.text) <= len(heard.text)


@given(st.text(), st.integers(1, 80))
def test_a_flat_name_is_short_and_on_one_line(name: str, limit: int) -> None:
    flat = one_line(name, limit)
    assert len(flat) <= limit
    assert flat == "" or flat.isprintable()
    flat.encode()
