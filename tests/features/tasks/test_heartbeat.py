"""What the owner writes into HEARTBEAT.md becomes tasks; what is malformed is told, and no more."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import elwood
from elwood.agent.conversation.settings import Hours
from elwood.features.tasks.heartbeat import MAX_ENTRIES, MAX_PROMPT, MAX_TITLE, read
from elwood.features.tasks.rules import problem
from elwood.features.tasks.settings import HeartbeatSettings
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Cadence, Cron, Every

SETTINGS = HeartbeatSettings()
AWAKE = "08:00-22:00"
ZONE = "Europe/Berlin"
# Unix seconds of 2026-11-22 00:00 UTC.
NOW = 1_795_305_600.0


def tasks(text: str, settings: HeartbeatSettings = SETTINGS) -> tuple[Task, ...]:
    found = read(text, settings, ZONE, AWAKE, {"local"})
    assert found.problems == ()
    return found.tasks


def problems(text: str) -> list[str]:
    found = read(text, SETTINGS, ZONE, AWAKE, {"local"})
    return [problem.removeprefix("HEARTBEAT.md, ") for problem in found.problems]


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
def test_an_empty_checklist_is_no_task(text: str) -> None:
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
    assert (task.id, task.origin, task.role) == ("heartbeat", "heartbeat", "cheap")
    assert task.when == Every(1800.0)
    assert task.hours == Hours("08:00", "22:00")
    assert task.zone == ZONE
    assert task.watch == ()
    assert task.purse is not None
    assert (task.purse.tokens, task.purse.usd) == (500_000, 0.5)
    assert task.prompt.endswith("\n\n# Home\n- Is the oven off?")
    assert "HEARTBEAT_OK" in task.prompt


def test_settings_count() -> None:
    settings = HeartbeatSettings(
        every=600.0, hours="mon-fri 9-17", model="local/qwen", tokens=10, usd=0.1
    )
    (task,) = tasks("- a", settings)
    assert task.when == Every(600.0)
    assert task.hours == Hours("09:00", "17:00", (0, 1, 2, 3, 4))
    assert task.role == "local/qwen"
    assert tasks("- a", HeartbeatSettings(on=False)) == ()
    assert tasks("- a", HeartbeatSettings(hours="always"))[0].hours is None


def test_lines_that_name_files_are_watched_and_not_sent() -> None:
    (task,) = tasks("Watch: inbox/*.md, `my notes.md`\n- news?\n- Watch: the birds\n  watch: x\n")
    assert task.watch == ("inbox/*.md", "my notes.md", "x")
    assert task.prompt.endswith("\n\n- news?\n- Watch: the birds")


def test_a_pattern_that_leads_out_is_told_and_the_checklist_stands() -> None:
    found = read("- a\nWatch: ../diary.md, b.md, /etc/passwd", SETTINGS, ZONE)
    assert found.tasks[0].watch == ("b.md",)
    assert [problem[:44] for problem in found.problems] == [
        "HEARTBEAT.md, line 1: Watch: '../diary.md' l",
        "HEARTBEAT.md, line 1: Watch: '/etc/passwd' l",
    ]


# --- entries --------------------------------------------------------------------------------------


def test_an_entry_has_all_it_says() -> None:
    (task,) = tasks(
        "## Check the Mail ##\r\n"
        "Cadence: every 20 minutes\r\n"
        "**Hours:** mon-fri 8-18\r\n"
        "watch: inbox/*.md\r\n"
        "Watch: notes\r\n"
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
        # A time of day was meant as it was written.
        ("30 6 * * *", Cron("30 6 * * *"), None),
        ("0 8 * * 1", Cron("0 8 * * 1"), None),
        ("@daily", Cron("@daily"), None),
        ("@hourly", Cron("@hourly"), Hours("08:00", "22:00")),
    ],
)
def test_the_usual_hours_hold_for_what_names_no_time_of_day(
    cadence: str, when: object, hours: Hours | None
) -> None:
    (task,) = tasks(f"## A\nCadence: {cadence}\nPrompt: x")
    assert (task.when, task.hours) == (when, hours)


MALFORMED = [
    # the entry "A", and of what is said about it
    ("Prompt: x", "Cadence: there is none: write a line like Cadence: every 30 minutes"),
    ("Cadence: daily", "it has no Prompt: write a line like Prompt: Look whether"),
    ("Cadence: daily\nPrompt:\n\n", "it has no Prompt: write a line like Prompt:"),
    ("Cadence: often\nPrompt: x", "Cadence: 'often' is no time that is understood: "),
    ("Cadence: every 5 seconds\nPrompt: x", "Cadence: every 5 seconds is too often: "),
    ("Cadence: 2100-01-01 09:00\nPrompt: x", "Cadence: a single time is no cadence: "),
    ("Cadence: daily\nCadence: weekly\nPrompt: x", "Cadence stands twice: leave one"),
    ("Cadence: daily\nColour: red\nPrompt: x", "there is no key Colour: there are"),
    ("Please look.\nCadence: daily\nPrompt: x", "'Please look.' stands behind no key: "),
    ("Cadence: daily\nPrompt: x\nHours: late", "Hours: 'late' are no hours: "),
    ("Cadence: daily\nPrompt: x\nModel: nosuch/m", "Model: 'nosuch/m' is none that can"),
    ("Cadence: daily\nPrompt: x\nSilent: maybe", "Silent: write yes or no"),
    ("Cadence: daily\nPrompt: x\nWatch: ../x", "Watch: '../x' leads out of the"),
    ("Cadence: daily\nPrompt: x\nWatch:", "Watch: there is nothing behind it: "),
    ("Cadence: daily\nPrompt: " + "x" * (MAX_PROMPT + 1), "its Prompt is longer than"),
]


@pytest.mark.parametrize(("body", "said"), MALFORMED)
def test_a_malformed_entry_is_told_and_the_others_stand(body: str, said: str) -> None:
    text = f"## A\n{body}\n## B\nCadence: hourly\nPrompt: y\n"
    found = read(text, SETTINGS, ZONE, AWAKE, {"local"})
    assert [task.id for task in found.tasks] == ["heartbeat-b"]
    (problem,) = problems(text)
    assert problem.startswith('line 1, "A": ')
    assert said in problem


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("", "line 4: it has no title: write one behind ##"),
        ("x" * (MAX_TITLE + 1), f'line 4, "{"x" * MAX_TITLE}": its title is longer than'),
        ("B!", 'line 4, "B!": another title is too like it: change one'),
    ],
)
def test_a_title_must_be_one(title: str, said: str) -> None:
    text = f"## b\nCadence: hourly\nPrompt: y\n## {title}\nCadence: hourly\nPrompt: y\n"
    (problem,) = problems(text)
    assert problem.startswith(said)


def test_keys_outside_of_entries_are_told() -> None:
    assert problems("### News\nCadence: daily\nPrompt: x") == [
        "line 1: Cadence and Prompt stand in no entry: write a heading above, like ## News"
    ]


def test_a_comment_that_is_not_closed_is_told() -> None:
    assert problems("- a\n<!-- b\n## C\nCadence: daily")[0].startswith("line 2: the comment is not")


def test_too_many_entries_are_told() -> None:
    text = "".join(f"## e{n}\nCadence: hourly\nPrompt: x\n" for n in range(MAX_ENTRIES + 3))
    found = read(text, SETTINGS, ZONE)
    assert len(found.tasks) == MAX_ENTRIES
    assert len(found.problems) == 1
    assert f'"e{MAX_ENTRIES}": there are more than {MAX_ENTRIES} entries' in found.problems[0]


# --- any text -------------------------------------------------------------------------------------

PIECES = [
    "## ", "##", "# ", "###", "\n", "\r\n", "\r", "Cadence: ", "Prompt: ", "Hours:", "Watch: ",
    "Model: ", "Silent: ", "daily", "every 20 minutes", "*/5 * * * *", "```", "~~~", "<!--", "-->",
    "- ", "- [ ]", "**", ",", "../", "inbox/*", "yes", "cheap", "8-22", "mon-fri ", " ", "\t", "a",
    "today at 9", "\ufeff", "\ud800", "\0", "`", ":", "\u2028", "2100-01-01",
]  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=60).map("".join)


@given(texts)
def test_any_text_gives_sound_tasks_and_short_problems(text: str) -> None:
    found = read(text, SETTINGS, ZONE, AWAKE, {"local"})
    ids = [task.id for task in found.tasks]
    assert len(set(ids)) == len(ids) <= MAX_ENTRIES + 1
    for task in found.tasks:
        assert re.fullmatch(r"heartbeat(-[a-z0-9][a-z0-9-]{0,63})?", task.id)
        assert problem(task) == ""
        assert task.prompt
        assert task.message == task.chore == ""
    for told in found.problems:
        assert re.match(r'HEARTBEAT\.md, line \d+(, "|: )', told)
        assert len(told) < 4000
