"""The ways to talk with a house as it is run: Telegram, the console, one message, notices."""

import sys

from elwood.agent.channels.channel import Body, Channel, Doors
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.channels.pacing import paced
from elwood.agent.conversation.identity import PREFIX, Principal, session_of
from elwood.agent.conversation.inbound import Busy, Inbound, NotNow, Refused, Taken
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.task_run import SESSION as TASK
from elwood.features.console.actor import ROUTE, ConsoleIntake, ConsoleOutbox
from elwood.features.console.client import Lines, read_fd, write_fd
from elwood.features.telegram.client import Bot
from elwood.features.telegram.intake import Intake
from elwood.features.telegram.outbox import Outbox
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.environment import Environment
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import Mailbox, in_thread

# The conversation on the console.
CONSOLE = "console"
OWNER = Principal("console", "owner", owner=True)


def telegram(settings: TelegramSettings, silence: float) -> Channel:
    def intake(doors: Doors) -> Body:
        actor = Intake(
            Bot(settings, Client(connections=4)),
            settings,
            sessions=doors.sessions,
            approvals=doors.approvals,
            outbox=doors.outbox,
            random=doors.outside.random,
            now=doors.outside.now,
            silence=silence,
        )

        async def body(mailbox: Mailbox[None]) -> None:
            doors.up.set()
            await actor.run(mailbox)

        return body

    async def outbox(mailbox: Mailbox[OutboxMail]) -> None:
        bot = Bot(settings, Client(connections=64))
        pacing = paced(settings.messages_per_second)
        await Outbox(bot, random=Environment().random, pacing=pacing).run(mailbox)

    return Channel(
        name="telegram",
        outbox=outbox,
        intake=intake,
        owner=tuple(Route("telegram", chat=user) for user in settings.owners),
        owners=frozenset(f"tg:{user}" for user in settings.owners),
        serves=lambda name: name.startswith((PREFIX, TASK)),
        session=lambda route: session_of(route.chat, route.topic, {}) if route.private else None,
        files=True,
    )


def console() -> Channel:
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    lines = Lines(read_fd(0))
    entered = (lambda: lines.count) if terminal else None
    outbox = ConsoleOutbox(write_fd(1, in_thread), entered=entered)

    def intake(doors: Doors) -> Body:
        doors.up.set()
        return ConsoleIntake(
            lines,
            doors.sessions,
            doors.outbox,
            principal=OWNER,
            new_id=doors.outside.new_id,
            now=doors.outside.now,
            quiet=doors.quiet,
            done=doors.stop,
            terminal=terminal,
        ).run

    owners = frozenset({OWNER.id})
    return Channel(
        name=ROUTE.channel,
        outbox=outbox.run,
        intake=intake,
        owner=(ROUTE,),
        owners=owners,
        serves=lambda name: not name.startswith(PREFIX),
        session=lambda route: CONSOLE,
    )


def notices() -> Channel:
    """Make a channel for what goes wrong, apart from the answers: they may go into a pipe."""

    async def body(mailbox: Mailbox[None]) -> None:
        async for _ in mailbox:
            pass

    return Channel(
        name="notices",
        outbox=ConsoleOutbox(write_fd(2, in_thread)).run,
        intake=lambda doors: body,
        owner=(Route("notices"),),
        serves=lambda name: False,
    )


class Saying:
    """Says one thing, waits for the answer, and stops the house."""

    def __init__(self, session: str, text: str) -> None:
        self.session = session
        self.is_answered = False
        self._text = text

    def intake(self, doors: Doors) -> Body:
        """Make the body of the intake."""
        sent_at, id_ = doors.outside.now(), f"once:{doors.outside.new_id()}"

        def inbound() -> Inbound:
            return Inbound(
                session=self.session,
                id=id_,
                principal=OWNER,
                route=ROUTE,
                text=self._text,
                sent_at=sent_at,
            )

        async def body(mailbox: Mailbox[None]) -> None:
            doors.up.set()
            match await doors.sessions.insist(inbound):
                case Taken():
                    await doors.quiet()
                    self.is_answered = not doors.failed(self.session)
                case Busy(count):
                    _complain(f"{count} messages are waiting in this conversation already")
                case Refused(why) | NotNow(why):
                    _complain(why)
            doors.stop.set()
            async for _ in mailbox:
                pass

        return body


def _complain(why: str) -> None:
    print(f"I did not take that: {why}", file=sys.stderr)
