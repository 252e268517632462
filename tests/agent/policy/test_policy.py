"""The decision table, row by row; test_labels.py has the rows about labels."""

from typing import Literal

import pytest

from elwood.agent.conversation.calls import (
    Action,
    CallRemote,
    FetchUrl,
    Other,
    Quotation,
    ReadFiles,
    RunCommand,
    SaveMemory,
    Schedule,
    SearchWeb,
    SendMessage,
    SendRequest,
    WriteFile,
)
from elwood.agent.conversation.labels import Label
from elwood.agent.policy.decide import Allow, Ask, Decision, Deny, Rules, Situation, decide, version
from elwood.agent.policy.quotations import OutgoingText
from elwood.agent.policy.settings import Word
from tests.agent.conversation.test_labels import ROWS as LABEL_ROWS
from tests.agent.conversation.test_labels import TABLE as ROWS

U = Label(untrusted=True)
P = Label(private=True)
UP = U | P
LABELS = {
    "clean (only owner text)": Label(),
    "U (untrusted content read)": U,
    "U + P (untrusted content and private data read)": UP,
    "P (private data, no untrusted content)": P,
    "heartbeat or schedule that reads mail (U+P from the start)": UP,
}
PAGE = "https://news.example/today?page=2"
NOTES = "My passport has the number C01X00T47 and expires in May."
EFFECTS: list[Action] = [
    WriteFile(),
    WriteFile(foreign=True),
    RunCommand("unclear"),
    RunCommand("listed"),
    RunCommand("ask", "you said so"),
    SendRequest("news.example"),
    SendRequest("news.example", "allowed"),
    SendMessage("group"),
    SendMessage("person"),
    SaveMemory(),
    Schedule(),
    CallRemote("write"),
    CallRemote("destructive"),
    Other("write"),
    Other("destructive"),
]


QUOTED, OWN = (
    Quotation("text from notes/plan.md"),
    Quotation("text from your own words", private=False),
)


def fetch(extra: int = 13, url: str = PAGE, quotes: Quotation | None = None) -> FetchUrl:
    return FetchUrl(url, "news.example", "open", extra, quotes)


def search(words: str) -> SearchWeb:
    assert OutgoingText(words).find_shared_runs(NOTES)
    return SearchWeb(Quotation("text from notes.md"))


# The actions of each row, written by hand.
ACTS: dict[str, list[Action]] = {
    "TA-01": [ReadFiles()],
    "TA-02": [RunCommand("safe")],
    "TA-03": [RunCommand("unclear")],
    "TA-04": [fetch(), fetch(extra=200)],
    "TA-05": [SendRequest("news.example", "allowed")],
    "TA-06": [SendRequest("news.example")],
    "TA-07": [SendMessage("owner")],
    "TA-08": [SendMessage("person")],
    "TA-09": [SaveMemory()],
    "TA-10": [Other("destructive")],
    "TA-11": [Schedule()],
    "TA-12": [ReadFiles()],
    "TA-13": [RunCommand("safe")],
    "TA-14": [RunCommand("unclear")],
    "TA-15": [fetch(), fetch(extra=3000)],
    "TA-16": [fetch(), fetch(extra=200)],
    "TA-17": [SearchWeb()],
    "TA-18": [SendRequest("news.example", "allowed")],
    "TA-19": [SendRequest("news.example")],
    "TA-20": [SendMessage("owner")],
    "TA-21": [SendMessage("person")],
    "TA-22": [WriteFile()],
    "TA-23": [WriteFile(protected=True), WriteFile(protected=True, foreign=True)],
    "TA-24": [SaveMemory()],
    "TA-25": [Other("destructive")],
    "TA-26": [Schedule()],
    "TA-27": [WriteFile(foreign=True), Other("destructive")],
    "TA-28": [CallRemote("read")],
    "TA-29": [CallRemote("write"), CallRemote("destructive")],
    "TA-31": [fetch(), fetch(1, "https://news.example/"), fetch(0, "https://news.example")],
    "TA-32": [fetch(), fetch(1, "https://news.example/")],
    "TA-33": [search("what does passport number C01X00T47 mean")],
    "TA-34": [SendRequest("news.example")],
    "TA-35": [SendRequest("news.example"), SendRequest("news.example", "allowed")],
    "TA-36": [SendMessage("person")],
    "TA-37": [SendMessage("group")],
    # The sandbox never has network; elwood/features/shell judges the command line.
    "TA-38": [RunCommand("forbidden", "there is no network in the sandbox")],
    "TA-39": [SendMessage("owner")],
    "TA-40": [CallRemote("read", open_world=True), CallRemote("write", open_world=True)],
    "TA-41": [fetch(), fetch(extra=200)],
    "TA-42": [SendMessage("person")],
    "TA-43": [SendRequest("news.example", "allowed")],
    "TA-44": [SendRequest("news.example")],
    "TA-45": EFFECTS,
}
NAMED: dict[str, Situation] = {
    "TA-15": Situation(label=U, principal="owner", named_now=frozenset({PAGE, "news.example"})),
    "TA-31": Situation(label=UP, principal="owner", named_before=frozenset({PAGE, "news.example"})),
    # The owner named it, but only after something untrusted was read.
    "TA-32": Situation(label=UP, principal="owner", named_now=frozenset({PAGE, "news.example"})),
    "TA-45": Situation(label=UP, principal="task"),
}


def make_situation(row: str) -> Situation:
    label = LABELS[ROWS[row]["label"]]
    found = NAMED.get(row) or Situation(
        label=label, principal="owner", origins=("evil.example",) if label.untrusted else ()
    )
    assert found.label == label
    return found


@pytest.mark.parametrize("row", ACTS)
def test_row_of_the_table(row: str) -> None:
    expected = ROWS[row]["expected"].split()[0].rstrip(",")
    for action in ACTS[row]:
        decision = decide("tool", action, make_situation(row), Rules())

        assert type(decision).__name__.lower() == expected, action
        if isinstance(decision, Ask) and make_situation(row).label.untrusted:
            # No question offers "always" (AP-15, TA-14, TA-35), and each has its reason.
            assert not decision.remember
            assert "may have prompted it" in decision.why


def test_every_row_is_covered() -> None:
    assert len(ROWS) == 55
    # TA-30 approves something, and no tool can.
    assert {"TA-30"} | set(ACTS) | set(LABEL_ROWS) == set(ROWS)
    assert not set(ACTS) & set(LABEL_ROWS)


@pytest.mark.parametrize("label", [Label(), U, P, UP])
def test_a_long_address_needs_the_owner(label: Label) -> None:
    """TA-16, with any labels."""
    host = Situation(label=label, principal="owner", named_before=frozenset({"news.example"}))
    page = Situation(label=label, principal="owner", named_before=frozenset({PAGE}))

    assert isinstance(decide("t", fetch(extra=201), host, Rules()), Ask)
    assert isinstance(decide("t", fetch(extra=201), page, Rules()), Allow)


CARRIERS: list[Action] = [
    fetch(quotes=QUOTED),
    SearchWeb(QUOTED),
    Schedule(QUOTED),
    CallRemote("read", open_world=True, quotes=QUOTED),
]


@pytest.mark.parametrize("action", CARRIERS, ids=str)
@pytest.mark.parametrize("label", [Label(), P, U])
def test_private_text_is_never_sent_unasked(label: Label, action: Action) -> None:
    decision = decide("t", action, Situation(label=label, principal="owner"), Rules())

    assert isinstance(decision, Ask)
    assert isinstance(action, Schedule) or label.untrusted or decision.remember
    if label != U or not isinstance(action, Schedule):
        assert "text from notes/plan.md" in decision.why


def test_an_allowed_host_gets_any_address_until_tainted() -> None:
    action = FetchUrl(PAGE, "news.example", "allowed", 3000, QUOTED)
    trusted, read = (Situation(label=label, principal="owner") for label in (P, U))

    assert isinstance(decide("t", action, trusted, Rules()), Allow)
    assert isinstance(decide("t", action, read, Rules()), Ask)


@pytest.mark.parametrize("action", [fetch(quotes=OWN), SearchWeb(OWN)], ids=str)
@pytest.mark.parametrize("principal", ["owner", "task"])
def test_the_owners_words_need_approval_once_tainted(
    principal: Literal["owner", "task"], action: Action
) -> None:
    trusted, read = (
        Situation(label=label, principal=principal, named_now=frozenset({"news.example"}))
        for label in (Label(), U)
    )

    assert isinstance(decide("t", action, trusted, Rules()), Allow)
    decision = decide("t", action, read, Rules())
    assert isinstance(decision, Ask)
    assert "text from your own words" in decision.why


def test_an_untrusted_source_may_name_a_quotation() -> None:
    source = Quotation("text from x\u202e\ny" + "z" * 500)

    decision = decide("t", SearchWeb(source), Situation(label=P, principal="owner"), Rules())

    assert isinstance(decision, Ask)
    assert "text from x⟨U+202E⟩⏎y" in decision.why
    assert len(decision.why) < 150


def test_other_words_for_a_known_host_need_approval() -> None:
    """Stricter than TA-31: the rest of the address can carry data out."""
    for told in (fetch(20, "https://news.example/?q=passport"), fetch(2, "https://news.example/1")):
        assert isinstance(decide("t", told, make_situation("TA-31"), Rules()), Ask)


def test_a_waiting_task_may_read_and_report() -> None:
    """TA-45 concerns effects only."""
    for action in (ReadFiles(), SendMessage("owner"), SearchWeb()):
        assert decide("t", action, make_situation("TA-45"), Rules()) == Allow(), action


@pytest.mark.parametrize("told", ["allow", "ask"])
def test_no_setting_lets_a_tainted_task_act(told: Word) -> None:
    rules = Rules(tools={"t": told})
    for action in EFFECTS:
        decision = decide("t", action, make_situation("TA-45"), rules)
        assert isinstance(decision, Ask), action
        assert not decision.remember


@pytest.mark.parametrize(
    ("label", "principal", "action"),
    [
        (Label(), "owner", WriteFile(foreign=True)),
        (Label(), "owner", Other("read")),
        (Label(), "owner", SendMessage("owner")),
        (P, "owner", SearchWeb(OWN)),
        (P, "owner", fetch(quotes=OWN)),
        (P, "owner", Schedule(OWN)),
        (P, "owner", CallRemote("read", open_world=True, quotes=OWN)),
        (UP, "owner", CallRemote("read", quotes=QUOTED)),
        (P, "owner", CallRemote("read", open_world=True)),
        (U, "owner", CallRemote("read", open_world=True)),
        (UP, "owner", CallRemote("read")),
        (UP, "owner", WriteFile()),
        (UP, "owner", SaveMemory()),
        (UP, "task", CallRemote("read")),
        (UP, "task", RunCommand("safe")),
        (U, "task", WriteFile()),
        (P, "task", SaveMemory()),
    ],
    ids=str,
)
def test_nothing_is_asked_without_need(
    label: Label, principal: Literal["owner", "task"], action: Action
) -> None:
    assert decide("t", action, Situation(label=label, principal=principal), Rules()) == Allow()


GUEST = Situation(label=Label(), principal="guest")


@pytest.mark.parametrize(
    "action",
    [ReadFiles(), RunCommand("safe"), CallRemote("read"), Other("read"), *EFFECTS],
    ids=str,
)
def test_a_guest_needs_approval_for_the_owners_data(action: Action) -> None:
    rules = Rules(tools={"t": "allow"})

    decision = decide("t", action, GUEST, rules)

    assert isinstance(decision, Ask)
    assert not decision.remember


def test_a_guest_may_talk_and_browse_but_not_instruct() -> None:
    for action in (SendMessage("owner"), SearchWeb(), fetch()):
        assert isinstance(decide("t", action, GUEST, Rules()), Allow)
    assert isinstance(decide("t", WriteFile(protected=True), GUEST, Rules()), Deny)


OWNER = Situation(label=Label(), principal="owner")


@pytest.mark.parametrize("action", [ReadFiles(), RunCommand("safe"), Other("read")])
def test_public_effects_need_approval_unless_configured(action: Action) -> None:
    shown = Situation(label=Label(), principal="owner", shows=True)
    strange = Situation(label=U, principal="owner", shows=True)
    rules = Rules(tools={"t": "allow"})

    decision = decide("t", action, shown, Rules())
    assert isinstance(decision, Ask)
    assert decision.remember
    assert isinstance(decide("t", action, shown, rules), Allow)
    assert isinstance(decide("t", action, strange, rules), Ask)


@pytest.mark.parametrize(
    ("action", "decision"),
    [
        (RunCommand("forbidden", "it is a fork bomb"), Deny("it is a fork bomb")),
        (FetchUrl(PAGE, "news.example", "blocked"), Deny("your settings block news.example")),
        (SendRequest("news.example", "blocked"), Deny("your settings block news.example")),
    ],
    ids=str,
)
def test_no_setting_allows_a_forbidden_call(action: Action, decision: Decision) -> None:
    assert decide("t", action, OWNER, Rules(tools={"t": "allow"})) == decision
    assert decide("t", action, OWNER, Rules(tools={"t": "ask"})) == decision


@pytest.mark.parametrize("action", [RunCommand("unclear"), SendMessage("person"), Other("write")])
def test_a_remembered_answer_is_reused(action: Action) -> None:
    assert decide("t", action, OWNER, Rules()) != Allow()
    assert isinstance(decide("t", action, OWNER, Rules(tools={"t": "allow"})), Allow)
    assert isinstance(decide("t", action, OWNER, Rules(tools={"other": "allow"})), Ask)
    assert decide("t", action, OWNER, Rules(tools={"t": "deny"})) == Deny("your settings forbid t")


@pytest.mark.parametrize(
    "action",
    [Other("destructive"), WriteFile(protected=True), RunCommand("ask", "you said so")],
    ids=str,
)
def test_some_calls_need_approval_every_time(action: Action) -> None:
    decision = decide("t", action, OWNER, Rules(tools={"t": "allow"}))

    assert isinstance(decision, Ask)
    assert not decision.remember


def test_any_call_can_require_approval() -> None:
    rules = Rules(tools={"t": "ask"})

    assert decide("t", ReadFiles(), OWNER, rules) == Ask("your settings say to ask about t", True)
    untrusted = decide("t", ReadFiles(), make_situation("TA-12"), rules)
    assert isinstance(untrusted, Ask)
    assert not untrusted.remember


@pytest.mark.parametrize(
    "action",
    [FetchUrl(PAGE, "news.example", "ask", 1), SendRequest("news.example", "ask")],
    ids=str,
)
def test_a_host_can_always_require_approval(action: Action) -> None:
    named = Situation(label=Label(), principal="owner", named_before=frozenset({PAGE}))
    decision = decide("t", action, named, Rules(tools={"t": "allow"}))

    assert isinstance(decision, Ask)
    assert not decision.remember


def test_a_reason_names_its_sources_on_one_line() -> None:
    origins = ("a.example", "x\u202e\ny" + "z" * 500, "c.example", "d.example", "e.example")
    read = Situation(label=U, principal="owner", origins=origins)

    decision = decide("t", Schedule(), read, Rules())

    assert isinstance(decision, Ask)
    assert "text from a.example, x⟨U+202E⟩⏎y" in decision.why
    assert decision.why.endswith("c.example and 2 more may have prompted it")
    assert "\n" not in decision.why
    assert len(decision.why) < 300


def test_a_changed_rule_changes_the_version() -> None:
    """AP-26."""
    assert version(Rules(tools={"a": "ask", "b": "deny"})) == version(
        Rules(tools={"b": "deny", "a": "ask"})
    )
    assert version(Rules(tools={"a": "ask"})) != version(Rules(tools={"a": "allow"}))
