"""Prefixes of Elwood's reminders and lists of records, as a model reads them."""

from elwood.agent.session.turn.runner import WAITING
from elwood.agent.session.turn.turn import RECORDS
from elwood.features.memory.extension import OFFERED
from elwood.features.shell.extension import ENVIRONMENT
from elwood.features.skills.skill import SKILL
from elwood.features.tasks.parts import PLANNED

# Reminders of which only the newest applies, and the records of a round.
TOLD_AGAIN = (ENVIRONMENT, PLANNED, WAITING, SKILL, RECORDS.partition("{")[0])
__all__ = ["ENVIRONMENT", "OFFERED", "PLANNED", "SKILL", "TOLD_AGAIN", "WAITING"]
