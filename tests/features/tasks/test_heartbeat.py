"""HEARTBEAT.md becomes tasks, and malformed entries become problems."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import elwood
from elwood.agent.conversation.settings import Hours, Owner
from elwood.features.tasks.heartbeat import Checklist, Written, parse_checklist
from elwood.features.tasks.settings import MAX_PROMPT, MAX_TITLE, HeartbeatSettings
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Cadence, Cron, Every, check
from elwood.foundation.settings import Config
from tests.model_roles import asking

ZONE = "Europe/Berlin"
OWNER = Owner(timezone=ZONE, hours="08:00-22:00")


def found(text: str, settings: HeartbeatSettings | None = None) -> Checklist:
    settings = settings or HeartbeatSettings()
    models = asking("local/qwen")
    return parse_checklist(Config.from_values(OWNER, models, settings), Written(text))


def tasks(text: str, settings: HeartbeatSettings | None = None) -> tuple[Task, ...]:
    checklist = found(text, settings)
    assert checklist.problems == ()
    return checklist.tasks


def problems(text: str) -> list[str]:
    return [problem.removeprefix("HEARTBEAT.md, ") for problem in found(text).problems]


# --- the checklist --------------------------------------------------------------------------------

EMPTY = [
    "",
    "\n \t\n",
    "# Heartbeat\n\n### nothing yet\n",
    "<!-- - look at the mail -->",
    "# Heartbeat\n<!--\n- one\n\n## Two\nCadence: daily\nPrompt: x\n-->\n",
    "- \n*\n+\n1.\n2)\n- [ ]\n- []\n",
    "---\n* * *\n___",
    "\ufeff# Heartbeat\r\n\r\n- \r\n",
    "Watch: inbox/*.md\n",
]


@pytest.mark.parametrize("text", EMPTY)
def test_an_empty_checklist_makes_no_task(text: str) -> None:
    assert tasks(text) == ()


def test_the_shipped_file_is_empty_and_its_examples_are_sound() -> None:
    shipped = (Path(elwood.__file__).parents[1] / "workspace" / "HEARTBEAT.md").read_text()
    assert tasks(shipped) == ()
    examples = shipped.replace("<!--", "").replace("-->", "")
    assert [task.id for task in tasks(examples)] == [
        "heartbeat", "heartbeat-week-ahead", "heartbeat-inbox"
    ]  # fmt: skip


def test_a_checklist_is_one_bounded_task() -> None:
    (task,) = tasks("# Home\n- Is the oven off? <!-- it once was not -->\n")
    assert (task.id, task.origin, task.role) == ("heartbeat", "heartbeat", "heartbeat")
    assert task.when == Every(1800.0)
    assert task.hours == Hours("08:00", "22:00")
    assert task.zone == ZONE
    assert task.watch is None, "it is gone through at each look"
    assert task.budget is not None
    assert (task.budget.tokens, task.budget.usd) == (500_000, 0.5)
    assert task.prompt.endswith("\n\n# Home\n- Is the oven off?")
    assert "HEARTBEAT_OK" in task.prompt


def test_settings_apply_to_the_checklist() -> None:
    settings = HeartbeatSettings(
        every=600.0, hours="mon-fri 9-17", model="local/qwen", tokens=10, usd=0.1
    )
    (task,) = tasks("- a", settings)
    assert task.when == Every(600.0)
    assert task.hours == Hours("09:00", "17:00", (0, 1, 2, 3, 4))
    assert task.role == "local/qwen"
    assert tasks("- a", HeartbeatSettings(on=False)) == ()
    assert tasks("- a\n## B\nCadence: hourly\nPrompt: c", HeartbeatSettings(every=0)) == ()
    assert tasks("- a", HeartbeatSettings(only_on_change=True))[0].watch == ()
    assert tasks("- a", HeartbeatSettings(hours="always"))[0].hours is None


def test_watch_lines_are_not_sent_to_the_model() -> None:
    (task,) = tasks("Watch: inbox/*.md, `my notes.md`\n- news?\n- Watch: the birds\n  watch: x\n")
    assert task.watch == ("inbox/*.md", "my notes.md", "x")
    assert task.prompt.endswith("\n\n- news?\n- Watch: the birds")


def test_pages_and_commands_are_watched_too() -> None:
    page, command = "https://example.org/a,b?c=1", "$ git log -1 --format=%h,%s"
    (task,) = tasks(f"Watch: inbox/*.md, {page}, `x y.md`, {command}\n- news?\n")
    assert task.watch == ("inbox/*.md", page, "x y.md", command)


def test_a_pattern_outside_the_workspace_is_reported() -> None:
    (said,) = problems("- a\nWatch: b.md, ../diary.md")
    assert said.startswith("line 1: Watch: '../diary.md' cannot be watched")


# --- entries --------------------------------------------------------------------------------------


def test_an_entry_is_parsed_with_all_its_keys() -> None:
    (task,) = tasks(
        "## Check the Mail ##\r\n"
        "Cadence: every 20 minutes\r\n"
        "**Hours:** mon-fri 8-18\r\n"
        "watch: inbox/*.md, notes\r\n"
        "Model: local/qwen\r\n"
        "Silent: Yes\r\n"
        "Prompt: Look into it.\r\n"
        "\r\n"
        "- what is new\r\n"
        "- Watch: is no key in a list\r\n"
        " Hours: behind a space neither\r\n"
    )
    assert (task.id, task.title) == ("heartbeat-check-the-mail", "Check the Mail")
    assert task.when == Every(1200.0)
    assert task.hours == Hours("08:00", "18:00", (0, 1, 2, 3, 4))
    assert task.watch == ("inbox/*.md", "notes")
    assert (task.role, task.silent) == ("local/qwen", True)
    lines = ["Look into it.", "", "- what is new", "- Watch: is no key in a list"]
    lines.append(" Hours: behind a space neither")
    assert task.prompt == "\n".join(lines)
    assert "\r" not in task.prompt


def test_keys_may_be_a_list() -> None:
    (task,) = tasks("## A\n- Cadence: hourly\n- Prompt: Look.\n- Silent: no\n- Model: default")
    assert (task.when, task.silent, task.role) == (Cadence("hourly"), False, "default")
    assert task.prompt == "Look."


@pytest.mark.parametrize(
    ("cadence", "when", "hours"),
    [
        ("hourly", Cadence("hourly"), Hours("08:00", "22:00")),
        ("every 2 hours", Every(7200.0), Hours("08:00", "22:00")),
        ("*/5 * * * *", Cron("*/5 * * * *"), Hours("08:00", "22:00")),
        # The time of day is used literally.
        ("30 6 * * *", Cron("30 6 * * *"), None),
        ("0 8 * * 1", Cron("0 8 * * 1"), None),
        ("@daily", Cron("@daily"), None),
        ("@hourly", Cron("@hourly"), Hours("08:00", "22:00")),
    ],
)
def test_default_hours_apply_to_tasks_without_a_time_of_day(
    cadence: str, when: object, hours: Hours | None
) -> None:
    (task,) = tasks(f"## A\nCadence: {cadence}\nPrompt: x")
    assert (task.when, task.hours) == (when, hours)


MALFORMED = [
    # the entry "A", and its problem
    ("Prompt: x", "it has no Cadence: write a line like Cadence: every 30 minutes"),
    ("Cadence: daily", "it has no Prompt: write a line like Prompt: Check whether"),
    ("Cadence: daily\nPrompt:\n\n", "Prompt is empty: "),
    ("Cadence: often\nPrompt: x", "Cadence: 'often' is not a valid time: "),
    ("Cadence: every 5 seconds\nPrompt: x", "Cadence: an interval of 5 seconds is not possible: "),
    ("Cadence: 2100-01-01 09:00\nPrompt: x", "Cadence: a single time does not repeat: "),
    ("Cadence: daily\nCadence: weekly\nPrompt: x", "Cadence appears twice: remove one of them"),
    ("Cadence: daily\nColour: red\nPrompt: x", "'Colour: red' belongs to no key: start the line"),
    ("Cadence: daily\nPrompt: x\nHours: late", "Hours: 'late' are not valid hours: "),
    ("Cadence: daily\nPrompt: x\nModel: nosuch/m", "Model: 'nosuch/m' has no provider: "),
    ("Cadence: daily\nPrompt: x\nModel: gpt", "Model: 'gpt' is not a model: write cheap, "),
    ("Cadence: daily\nPrompt: x\nSilent: maybe", "Silent: the value is not valid: write yes or no"),
    ("Cadence: daily\nPrompt: x\nWatch: ../x", "Watch: '../x' cannot be watched: "),
    ("Cadence: daily\nPrompt: x\nWatch:", "Watch is empty: "),
    ("Cadence: daily\nPrompt: " + "x" * (MAX_PROMPT + 1), "Prompt: longer than"),
]


@pytest.mark.parametrize(("body", "said"), MALFORMED)
def test_a_malformed_entry_is_reported_and_others_are_used(body: str, said: str) -> None:
    text = f"## A\n{body}\n## B\nCadence: hourly\nPrompt: y\n"
    assert [task.id for task in found(text).tasks] == ["heartbeat-b"]
    (problem,) = problems(text)
    assert problem.startswith('line 1, "A": ')
    assert said in problem


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("", "line 4: it has no title: write one after ##"),
        ("x" * (MAX_TITLE + 1), f'line 4, "{"x" * 80}": Title: longer than'),
        ("B!", 'line 4, "B!": another title is too similar: change one of them'),
    ],
)
def test_a_title_must_be_valid(title: str, said: str) -> None:
    text = f"## b\nCadence: hourly\nPrompt: y\n## {title}\nCadence: hourly\nPrompt: y\n"
    (problem,) = problems(text)
    assert problem.startswith(said)


def test_keys_outside_of_entries_are_reported() -> None:
    assert problems("### News\nCadence: daily\nPrompt: x") == [
        "line 1: Cadence and Prompt need a heading above them: write one, like ## News"
    ]


def test_an_unclosed_comment_is_reported() -> None:
    assert problems("- a\n<!-- b\n## C\nCadence: daily")[0].startswith("line 2: the comment is not")


# --- any text -------------------------------------------------------------------------------------

PIECES = [
    "## ", "##", "# ", "###", "\n", "\r\n", "\r", "Cadence: ", "Prompt: ", "Hours:", "Watch: ",
    "Model: ", "Silent: ", "daily", "every 20 minutes", "*/5 * * * *", "```", "~~~", "<!--", "-->",
    "- ", "- [ ]", "**", ",", "../", "inbox/*", "yes", "cheap", "8-22", "mon-fri ", " ", "\t", "a",
    "today at 9", "\ufeff", "\ud800", "\0", "`", ":", "\u2028", "2100-01-01",
]  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=60).map("".join)


@given(texts)
def test_any_text_gives_valid_tasks_and_short_problems(text: str) -> None:
    checklist = found(text)
    ids = [task.id for task in checklist.tasks]
    assert len(set(ids)) == len(ids)
    for task in checklist.tasks:
        assert re.fullmatch(r"heartbeat(-[a-z0-9][a-z0-9-]{0,63})?", task.id)
        check(task.when)
        assert task.prompt
        assert task.message == task.chore == ""
    for told in checklist.problems:
        assert re.match(r'HEARTBEAT\.md, line \d+(, "|: )', told)
        assert len(told) < 4000
