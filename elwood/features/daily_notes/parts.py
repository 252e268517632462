"""What daily notes brings to one run of the app."""

from collections.abc import Callable
from datetime import date
from functools import partial

from elwood.agent.conversation.settings import Owner
from elwood.agent.models.settings import ModelSettings, Providers
from elwood.agent.parts import Chore, Gathered, Parts, Report
from elwood.agent.session.core import Core
from elwood.agent.session.settings import LearningSettings
from elwood.features.daily_notes.extension import DailyNotesExtension
from elwood.features.daily_notes.reflections import due_reflections, request
from elwood.features.daily_notes.store import DailyNotes, DailyNoteSearch
from elwood.foundation.storage.confined import PathRefused, Unconfined

DAY = 86_400.0


async def build(core: Core, others: Gathered) -> Parts:
    """Make the notes, which all sessions share, their search, and the chores about them."""
    blocking, paths = core.environment.blocking, core.paths
    notes = DailyNotes(core.workspace, core.config.of(Owner).zone, blocking, core.redactor)
    search = DailyNoteSearch(paths.state, paths.workspace, blocking)
    provider = core.config.of(Providers).by_name.get(
        core.config.of(ModelSettings).summarizer.partition("/")[0]
    )
    # The model of rules has nothing to say about a week.
    thinks = provider is not None and provider.api != "offline"
    reflecting = Chore(
        id="reflections",
        title="reflect on the week or the month",
        every=DAY,
        do=partial(reflect, notes, core.clock.now),
        # Look at notes, and write one.
        tools=("read_file", "write_file"),
    )
    reflects = thinks and core.config.of(LearningSettings).reflections
    return Parts(
        sessions=[lambda log: DailyNotesExtension(log, notes, core.clock.now)],
        chores=[reflecting] if reflects else [],
        searches=[search],
    )


async def reflect(notes: DailyNotes, now: Callable[[], float], last: float) -> Report:
    """Have the week or the month that is over reflected on, one at a time, the oldest first."""
    try:
        names = await notes.names()
    except (PathRefused, Unconfined) as error:
        return Report(str(error), failed=True)
    due = due_reflections(names, date.fromisoformat(notes.today(now())))
    return Report(prompt=request(due[0])) if due else Report("nothing to reflect on")
