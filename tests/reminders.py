"""Prefixes of the reminders of Elwood's features, as a model reads them."""

from elwood.agent.session.turn.runner import WAITING
from elwood.features.memory.extension import OFFERED
from elwood.features.shell.extension import ENVIRONMENT
from elwood.features.skills.skill import SKILL
from elwood.features.tasks.parts import PLANNED

# Reminders of which only the newest applies.
TOLD_AGAIN = (ENVIRONMENT, PLANNED, WAITING, SKILL)
__all__ = ["ENVIRONMENT", "OFFERED", "PLANNED", "SKILL", "TOLD_AGAIN", "WAITING"]
