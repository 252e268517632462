"""The settings of tasks and the heartbeat, and the problems reported for wrong ones."""

from pathlib import Path

import attrs
import pytest

from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import Budget
from elwood.agent.conversation.settings import Hours
from elwood.agent.models.settings import ROLES, ModelSettings, models_in_use
from elwood.features.tasks.settings import MAX_PROMPT, ConfiguredTasks, TaskForm
from elwood.features.tasks.task import MAX_TASKS, Task
from elwood.features.tasks.when import Cron, Every
from tests.app.test_config import load_problems, load_text

OWNER = 'owner.timezone = "Europe/Berlin"\n'


def test_all_keys_of_a_task_are_read(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        """
        owner.timezone = "Europe/Berlin"
        [[tasks]]
        title = "Inbox"
        id = "in"
        when = "0 8 * * 1"
        zone = "Asia/Tokyo"
        ends = "2100-01-01 00:00"
        hours = "mon-fri 08:00-18:00"
        prompt = "What is new?"
        watch = ["inbox/*.md", "notes"]
        deliver = "telegram:-1001:7"
        silent = true
        session = "tg-1"
        model = "openai/gpt-5.4"
        tools = ["read_file"]
        tokens = 1000
        usd = 1
        catch_up = 600
        untrusted = true
        [[tasks]]
        when = "every 2 hours"
        message = "Drink!"
        """,
    )
    inbox, drink = config.get(ConfiguredTasks).tasks
    assert inbox == Task(
        "in",
        "Inbox",
        Cron("0 8 * * 1"),
        zone="Asia/Tokyo",
        prompt="What is new?",
        hours=Hours("08:00", "18:00", (0, 1, 2, 3, 4)),
        session="tg-1",
        route=Route("telegram", "-1001", "7"),
        silent=True,
        role="openai/gpt-5.4",
        tools=("read_file",),
        budget=Budget(1000, 1.0),
        catch_up=600.0,
        watch=("inbox/*.md", "notes"),
        ends=4_102_412_400.0,
        untrusted=True,
        origin="config",
    )
    assert drink == Task(
        "drink", "Drink!", Every(7200.0), zone="Europe/Berlin", message="Drink!", origin="config"
    )
    assert {
        "openai/gpt-5.4",
        *(config.get(ModelSettings).role(role).model for role in ROLES),
    } == set(models_in_use(config))


def test_tasks_may_come_from_a_variable(tmp_path: Path) -> None:
    text = '[[tasks]]\nwhen = "daily"\nprompt = "x"\n'
    written = '[{"when": "hourly", "message": "Drink!"}]'
    (task,) = load_text(tmp_path, text, ELWOOD__TASKS=written).get(ConfiguredTasks).tasks
    assert task.id == "drink"
    (said,) = load_problems(
        tmp_path, "", ELWOOD__TASKS='[{"wen": 1, "when": "daily", "prompt": "x"}]'
    )
    assert said == "ELWOOD__TASKS: tasks[0].wen: no such key; did you mean when?"
    for wrong in ("x", '{"when": "daily"}', "[1, 2"):
        (said,) = load_problems(tmp_path, "", ELWOOD__TASKS=wrong)
        assert said.startswith("ELWOOD__TASKS: tasks: expected tables, found ")


SOUND = 'when = "hourly"\nprompt = "x"\n'
WRONG = [
    # the table, and the message: an ellipsis at the end matches the rest
    ('prompt = "x"', ": tasks[0].when: is missing; write it"),
    ('when = "often"\nprompt = "x"',
     ": tasks[0].when: 'often' is not a valid time; write one of every 30 minutes, …"),
    ('when = "0 25 * * *"\nprompt = "x"', ": tasks[0].when: '0 25 * * *' has a bad hour; …"),
    ('when = "hourly"', ": tasks[0]: it needs exactly one of prompt, message and tool; write …"),
    (SOUND + 'message = "y"', ": tasks[0]: it needs exactly one of prompt, message and tool; …"),
    (SOUND + 'arguments = { a = 1 }', ": tasks[0]: arguments need a tool; name it as tool"),
    ('when = "hourly"\nmessage = "x"\non_failure = "y"', ": tasks[0]: on_success and …"),
    (SOUND + 'id = "No!"', ": tasks[0].id: 'No!' is not a valid id; use lower-case …"),
    (SOUND + 'id = "backup"', ": tasks[0].id: the id 'backup' belongs to Elwood itself; …"),
    (SOUND + 'id = "heartbeat"', ": tasks[0].id: the id 'heartbeat' is …"),
    ('when = "hourly"\nprompt = "今天"',
     ": tasks[0]: the title gives no id; set id, like water-plants"),
    (SOUND + 'zone = "Berlin"', ": tasks[0].zone: there is no time zone 'Berlin'; write a …"),
    (SOUND + 'hours = "late"', ": tasks[0].hours: 'late' are not valid hours; write them like …"),
    (SOUND + 'deliver = "Ada"', ": tasks[0].deliver: 'Ada' is not a valid destination; write …"),
    (SOUND + 'session = "../x"', ": tasks[0].session: not a valid conversation name; use …"),
    (SOUND + 'model = "gpt"',
     ": tasks[0].model: 'gpt' is not a model; write cheap, default or provider/name"),
    (SOUND + 'watch = ["a", "../b"]',
     ": tasks[0].watch[1]: '../b' cannot be watched; write a path in the …"),
    (SOUND + f"watch = {['x'] * 21}", ": tasks[0]: watch has more than 20 patterns; …"),
    (SOUND + 'ends = "soon"', ": tasks[0].ends: 'soon' is not a date or time; write a date, …"),
    (SOUND + 'start = "2026-12-24"', ": tasks[0]: start works only with intervals; …"),
    (f'when = "hourly"\nprompt = "{"x" * (MAX_PROMPT + 1)}"',
     f": tasks[0].prompt: longer than {MAX_PROMPT} characters; shorten it"),
    (SOUND + "[[tasks]]\n" + SOUND, ": tasks[1].id: another task has the id 'x'; choose …"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "said"), WRONG)
def test_a_wrong_task_is_reported_with_place_and_remedy(
    tmp_path: Path, table: str, said: str
) -> None:
    (found,) = load_problems(tmp_path, f"[[tasks]]\n{table}")
    wanted = f"config.toml{said}"
    assert found.startswith(wanted.removesuffix("…"))
    assert said.endswith("…") or found == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks = 5", ": tasks: expected tables, found the number 5; begin each with [[tasks]]"),
        ("[tasks]\nx = 1", ": tasks: expected tables, found a table; begin each with [[tasks]]"),
        ("tasks = [1]", ": tasks[0]: expected a table, found the number 1; begin it with "
         "[[tasks]]"),
        ('[heartbeat]\nhours = "late"', ": heartbeat.hours: 'late' are not valid hours; write them "
         "like 08:00-22:00, or mon-fri 08:00-18:00, or always"),
        ('[heartbeat]\nevery = 5',
         ": heartbeat.every: 5 is out of range; it must be from 60 to 3.16224e+07"),
        ('[heartbeat]\nmodel = "nosuch/x"', ": heartbeat.model: there is no provider nosuch; "
         "there are anthropic, offline, ollama, openai, openrouter"),
        ('owner.hours = "9 to 5"', ": owner.hours: '9 to 5' are not valid hours; write them like "
         "08:00-22:00, or mon-fri 08:00-18:00, or always"),
    ],
)  # fmt: skip
def test_other_mistakes_are_reported_too(tmp_path: Path, text: str, said: str) -> None:
    assert load_problems(tmp_path, text) == [f"config.toml{said}"]


def test_too_many_tasks_are_refused(tmp_path: Path) -> None:
    text = "".join(f'[[tasks]]\nid = "t{n}"\n{SOUND}' for n in range(MAX_TASKS + 1))
    (said,) = load_problems(tmp_path, text)
    assert said.endswith(f"tasks: more than {MAX_TASKS} tasks; remove some")


def test_the_form_has_a_key_for_each_field_of_a_task() -> None:
    """A new field of tasks becomes a key, or is left out on purpose."""
    keys = {field.name for field in attrs.fields(TaskForm)}
    other = {"route": "deliver", "role": "model", "budget": "usd"}
    assert {other.get(name, name) for name in Task.__struct_fields__} - keys == {"chore", "origin"}
