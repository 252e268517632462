"""The policy only gets stricter with labels, with other people, and with fewer named addresses.

Every field with finitely many values is tried in full.
"""

from collections.abc import Iterator
from itertools import product
from typing import get_args

import msgspec

from elwood.agent.conversation.calls import (
    Action,
    CallRemote,
    FetchUrl,
    Quotation,
    Schedule,
    SearchWeb,
)
from elwood.agent.conversation.labels import Label
from elwood.agent.policy.decide import Allow, Ask, Decision, Deny, Rules, Situation, decide
from elwood.agent.policy.settings import Word

URL, HOST = "https://a.example/x", "a.example"
LABELS = [Label(u, p) for u, p in product((False, True), repeat=2)]
PRINCIPALS = get_args(Situation.__annotations__["principal"])
NAMES = [frozenset(names) for names in ((), (URL,), (HOST,), (URL, HOST))]
RULES = [Rules(), *(Rules(tools={"t": word}) for word in get_args(Word))]
# Samples for the unbounded fields; the numbers are on both sides of every limit.
OPEN_FIELDS: dict[str, list[object]] = {
    "url": [URL, "https://a.example/"],
    "host": [HOST],
    "extra": [0, 1, 2, 200, 201, 10**9],
    "why": ["", "because"],
    "source": ["", "server"],
    "claim": ["", "it says so"],
    "quotes": [None, Quotation("x", private=False), Quotation("x")],
}


def sample_values(field: msgspec.structs.FieldInfo) -> list[object]:
    if field.name in OPEN_FIELDS:
        return OPEN_FIELDS[field.name]
    return [False, True] if field.type is bool else list(get_args(field.type))


def all_actions() -> Iterator[Action]:
    for kind in get_args(Action):
        for chosen in product(*map(sample_values, msgspec.structs.fields(kind))):
            yield kind(*chosen)


SITUATIONS = [
    Situation(label=label, principal=who, origins=origins, named_before=before, named_now=now)
    for label, who, before, now in product(LABELS, PRINCIPALS, NAMES, NAMES)
    for origins in ([("server",), ("server", "b.example")] if label.untrusted else [()])
]


def is_graver(a: Situation, b: Situation) -> bool:
    return (
        a.label <= b.label
        and set(a.origins) <= set(b.origins)
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
    """Return a sort key for decisions (AP-26)."""
    match decision:
        case Allow():
            return 0
        case Ask(_, remember):
            return 1 if remember else 2
        case Deny():
            return 3


def test_a_graver_situation_loosens_nothing() -> None:
    """Try everything; Ask with *remember* is looser than Ask without."""
    tried = decisions = 0
    for action, rules in product(all_actions(), RULES):
        strict = [strictness(decide("t", action, each, rules)) for each in SITUATIONS]
        assert not [(action, rules, SITUATIONS[i]) for i, j in PAIRS if strict[i] > strict[j]]
        decisions += len(strict)
        tried += len(PAIRS)
    print(f"{decisions} decisions, {tried} pairs compared")
    assert tried >= 100_000


def test_a_label_loosens_nothing() -> None:
    for action, situation, rules in product(all_actions(), SITUATIONS, RULES):
        match action:
            case FetchUrl(quotes=None) | SearchWeb(None) | CallRemote(quotes=None) | Schedule(None):
                steps = [
                    strictness(
                        decide("t", msgspec.structs.replace(action, quotes=one), situation, rules)
                    )
                    for one in OPEN_FIELDS["quotes"]
                ]
                assert steps == sorted(steps), (action, situation, rules)


def test_every_kind_of_action_is_covered() -> None:
    assert {type(action) for action in all_actions()} == set(get_args(Action))
    assert len([a for a in all_actions() if isinstance(a, FetchUrl)]) == 144


def test_settings_are_ordered() -> None:
    order = [RULES[1 + get_args(Word).index(word)] for word in ("allow", "ask", "deny")]
    for action, situation in product(all_actions(), SITUATIONS):
        base = decide("t", action, situation, Rules())
        allow, ask, deny = (decide("t", action, situation, rules) for rules in order)

        assert isinstance(deny, Deny)
        assert strictness(ask) >= max(1, strictness(base))
        assert allow == base or (base == Ask(getattr(base, "why", ""), True))
        assert isinstance(allow, Allow) or allow == base
