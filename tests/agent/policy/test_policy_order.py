"""The policy only gets stricter: with labels, with others than the owner, with fewer names.

Whatever has finitely many values is tried in full, the rest at random (`--policy-examples`).
"""

from collections.abc import Iterator
from itertools import product
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elwood.agent.conversation.calls import Action, FetchUrl
from elwood.agent.conversation.labels import Label
from elwood.agent.policy.decide import Allow, Ask, Decision, Deny, Rules, Situation, decide
from elwood.agent.policy.settings import Word

URL, HOST = "https://a.example/x", "a.example"
LABELS = [Label(u, p) for u, p in product((False, True), repeat=2)]
PRINCIPALS = get_args(Situation.__annotations__["principal"])
NAMES = [frozenset(names) for names in ((), (URL,), (HOST,), (URL, HOST))]
RULES = [Rules(), *(Rules(tools={"t": word}) for word in get_args(Word))]
# Values of the fields that have no end of them; the numbers are both sides of every limit.
OPEN_FIELDS: dict[str, list[object]] = {
    "url": [URL, "https://a.example/"],
    "host": [HOST],
    "extra": [0, 1, 2, 200, 201, 10**9],
    "why": ["", "because"],
}


def values(field: msgspec.structs.FieldInfo) -> list[object]:
    if field.name in OPEN_FIELDS:
        return OPEN_FIELDS[field.name]
    return [False, True] if field.type is bool else list(get_args(field.type))


def actions() -> Iterator[Action]:
    for kind in get_args(Action):
        for chosen in product(*map(values, msgspec.structs.fields(kind))):
            yield kind(*chosen)


SITUATIONS = [
    Situation(label=label, principal=who, named_before=before, named_now=now)
    for label, who, before, now in product(LABELS, PRINCIPALS, NAMES, NAMES)
]


def is_graver(a: Situation, b: Situation) -> bool:
    return (
        a.label <= b.label
        and a.principal in ("owner", b.principal)
        and a.named_before >= b.named_before
        and a.named_now >= b.named_now
    )


PAIRS = [
    (i, j)
    for (i, a), (j, b) in product(enumerate(SITUATIONS), repeat=2)
    if i != j and is_graver(a, b)
]


def strictness(decision: Decision) -> int:
    """Order decisions (AP-26)."""
    match decision:
        case Allow():
            return 0
        case Ask(_, remember):
            return 1 if remember else 2
        case Deny():
            return 3


def test_nothing_gets_looser_in_a_graver_situation() -> None:
    """Exhaustive; Ask with *remember* is looser than Ask without."""
    tried = decisions = 0
    for action, rules in product(actions(), RULES):
        strict = [strictness(decide("t", action, each, rules)) for each in SITUATIONS]
        assert not [(action, rules, SITUATIONS[i]) for i, j in PAIRS if strict[i] > strict[j]]
        decisions += len(strict)
        tried += len(PAIRS)
    print(f"{decisions} decisions, {tried} pairs compared")
    assert tried >= 100_000


def test_every_kind_of_action_was_tried() -> None:
    assert {type(action) for action in actions()} == set(get_args(Action))
    assert len([a for a in actions() if isinstance(a, FetchUrl)]) == 48


def test_words_of_the_settings_are_ordered_too() -> None:
    order = [RULES[1 + get_args(Word).index(word)] for word in ("allow", "ask", "deny")]
    for action, situation in product(actions(), SITUATIONS):
        base = decide("t", action, situation, Rules())
        allow, ask, deny = (decide("t", action, situation, rules) for rules in order)

        assert isinstance(deny, Deny)
        assert strictness(ask) >= max(1, strictness(base))
        assert allow == base or (base == Ask(getattr(base, "why", ""), True))
        assert isinstance(allow, Allow) or allow == base


# Few names, so that they meet; some are what no name should be.
NAMED = st.sampled_from([URL, HOST, "t", "", "\ud800", "\u202e\n", "x" * 500])
NAME = st.one_of(NAMED, st.text(max_size=20))
NAME_SETS = st.frozensets(NAMED, max_size=3)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    return Situation(
        label=draw(st.sampled_from(LABELS)),
        principal=draw(st.sampled_from(PRINCIPALS)),
        origins=tuple(draw(st.lists(NAME, max_size=5))),
        named_before=draw(NAME_SETS),
        named_now=draw(NAME_SETS),
    )


def any_action() -> st.SearchStrategy[Action]:
    def values_of(field: msgspec.structs.FieldInfo) -> st.SearchStrategy[object]:
        if field.name == "extra":
            return st.integers()
        return NAME if field.name in OPEN_FIELDS else st.sampled_from(values(field))

    return st.one_of(
        [
            st.builds(kind, *map(values_of, msgspec.structs.fields(kind)))
            for kind in get_args(Action)
        ]
    )


WORDS = st.dictionaries(NAMED, st.sampled_from(get_args(Word)), max_size=3)


def test_no_value_makes_the_decision_fail(request: pytest.FixtureRequest) -> None:
    """Total, and of the same kind whatever the sources are called."""
    examples: int = request.config.getoption("--policy-examples")

    @settings(max_examples=examples, deadline=None)
    @given(NAME, any_action(), situations(), WORDS)
    def one(tool: str, action: Action, situation: Situation, words: dict[str, Word]) -> None:
        rules = Rules(tools=words)
        decision = decide(tool, action, situation, rules)
        if isinstance(decision, Ask | Deny):
            assert decision.why
        if isinstance(decision, Ask):
            assert not (decision.remember and situation.is_untrusted)
        for label in LABELS:
            more = msgspec.structs.replace(situation, label=situation.label | label)
            assert strictness(decide(tool, action, more, rules)) >= strictness(decision)
        for principal in ("guest", "task"):
            if situation.principal == "owner":
                other = msgspec.structs.replace(situation, principal=principal)
                assert strictness(decide(tool, action, other, rules)) >= strictness(decision)

    one()
