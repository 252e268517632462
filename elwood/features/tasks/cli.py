"""Carry out ``elwood tasks`` from the timetable's journal, whether Elwood runs or not."""

import time
from argparse import Namespace

from elwood.agent.conversation.settings import Owner
from elwood.agent.session.reading.cli import journal_state
from elwood.features.tasks.rules import task_list
from elwood.features.tasks.state import SCHEDULE, Timetable, TimetableEntry
from elwood.features.tasks.texts import cadence, describe_action
from elwood.foundation.command_line import OK, show_list
from elwood.foundation.settings import Config, Paths
from elwood.foundation.text.lines import ago
from elwood.foundation.text.tables import Styled


def list_tasks(config: Config, given: Namespace) -> int:
    """Print the tasks, the next one first; return the exit code."""
    table = journal_state(config.get(Paths).state / SCHEDULE, TimetableEntry, Timetable)
    zone, now, found = config.get(Owner).timezone, time.time(), []
    for seen in task_list(table, now, chores=given.all):
        task = seen.task
        when, what = cadence(task, zone), describe_action(task)
        fields = {"id": task.id, "title": task.title, "when": when, "does": what}
        fields |= {one: getattr(seen, one) for one in seen.__struct_fields__ if one != "task"}
        at = "never" if seen.next is None else "due" if seen.next <= now else ago(now - seen.next)
        following = Styled(seen.paused or at, "warning" if seen.paused else "")
        if seen.running is not None:
            following = Styled("running", "good")
        last = "" if seen.last is None else f"{ago(now - seen.last)}: {seen.result}"
        ended = Styled(last, "bad" if seen.result in ("failed", "missed") else "")
        found.append((fields, (task.id, when, following, ended, what)))
    none = "There are no tasks. Tell Elwood in a conversation what to do and when."
    show_list(("task", "when", "next", "last", "does"), found, given, none, ("does", "last"))
    return OK
