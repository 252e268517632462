"""What all sessions share."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import tzinfo

import attrs
import trio

from elwood.agent.approvals.messages import ApprovalsMail
from elwood.agent.channels.messages import Attachment, OutboxMail
from elwood.agent.conversation.message import Prompt
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import TurnSettings
from elwood.agent.models.messages import Complete, Completed, ModelsMail
from elwood.agent.session.log.after_restore import Restored
from elwood.agent.session.log.entries import Received
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session
from elwood.agent.session.log.turns import Turn
from elwood.agent.session.turn.gate import Gate
from elwood.agent.tools.searches import TextSearch
from elwood.features.daily_notes.store import DailyNotes
from elwood.features.memory.extension import Learning
from elwood.features.memory.messages import MemoryMail
from elwood.features.tasks.messages import TimetableMail
from elwood.foundation.runtime import ActorDown, Address, Blocking

# Seconds to wait for a restart of the models actor (its delay is 8 s at most, the grace at a stop
# 20), and between two looks.
MODELS_AWAY, LOOK_EVERY = 15.0, 0.25


@attrs.frozen(kw_only=True)
class Surroundings:
    """What all sessions share.

    *redact* takes secrets out of a text, *redact_partial* out of one that still grows.  *prompt*
    gives what the documents, skills and tools amount to now; *suggest* names the skills that fit a
    message, but those whose mark the conversation sees; *expand_skill_command* says in words what a
    command asks for that is the name of a skill.  *gate* makes the gate of a session from its id
    and its log.  *publish* shows a session's state to `elwood inspect`; *status* gives the house's
    lines of /status, to the owner or (False) to others.  *now* is the wall clock, Unix seconds.  A
    delivery that takes *delivery_limit* seconds is stuck, and so is a turn after *turn_limit*;
    after *idle* seconds without work a session leaves the memory, after *archive* seconds its
    conversation is put away.  *export* gives a file to the people of a route, and says where it is;
    its last arguments say that words of strangers are in it, and that it may have been given
    before.  *refusal* says why no new work is taken, if none is; *heard* is told where the owner
    writes, in private; *places* are where the owner reads, the best first.  Of what is in *memory*,
    up to *offered* tokens may go along with a message.  *threads* are the daily notes, if any are
    kept; *learning* is there if anything may be learned, *timetable* if anything can be planned,
    *restored* if the state came out of a backup.
    """

    redact: Callable[[str], str]
    redact_partial: Callable[[str], str]
    models: Address[ModelsMail]
    outboxes: Mapping[str, Address[OutboxMail]]
    prompt: Callable[[], Awaitable[Prompt]]
    approvals: Address[ApprovalsMail]
    gate: Callable[[str, SessionLog], Gate]
    suggest: Callable[[str, Callable[[str], bool]], str] = lambda message, sees: ""
    expand_skill_command: Callable[[str], Awaitable[str]]
    mark: Callable[[str, bool], Awaitable[None]]
    publish: Callable[[str, Session | None], None]
    status: Callable[[str, bool], Awaitable[str]]
    blocking: Blocking
    now: Callable[[], float]
    zone: tzinfo
    export: Callable[[Attachment, Route, bool, bool], Awaitable[str]]
    turns: TurnSettings
    max_tokens: int
    memory: Address[MemoryMail] | None = None
    searches: Sequence[TextSearch] = ()
    offered: int = 0
    timetable: Address[TimetableMail] | None = None
    delivery_limit: float = 60.0
    turn_limit: float = 1200.0
    idle: float = 600.0
    archive: float = 86_400.0
    refusal: Callable[[], str] = lambda: ""
    heard: Callable[[Route], None] = lambda route: None
    places: Callable[[], Sequence[Route]] = tuple
    threads: DailyNotes | None = None
    learning: Learning | None = None
    restored: Restored | None = None

    def whither(self, answered: Turn | Received) -> Route:
        """Say where what answers *answered* goes, if it is given now."""
        errand = answered.errand
        follows = errand is not None and errand.follows
        return next(iter(self.places()), answered.route) if follows else answered.route

    async def complete(self, request: Complete) -> Completed:
        """Ask for a response, waiting for a restart of who gives them.

        Raises ActorCrashed if it dies of the request, and ActorDown if it stays away.
        """
        patience = trio.current_time() + MODELS_AWAY
        while True:
            try:
                return await self.models.ask(request)
            except ActorDown:
                if trio.current_time() > patience:
                    raise
                await trio.sleep(LOOK_EVERY)
