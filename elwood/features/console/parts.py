"""What console brings to one run of the app."""

import sys
from collections.abc import Awaitable, Callable
from functools import partial

from elwood.agent.channels.channel import Channel
from elwood.agent.channels.messages import OutboxMail
from elwood.agent.conversation.inbound import PREFIX, Busy, NotNow, Refused, Taken
from elwood.agent.conversation.route import Route
from elwood.agent.feature import Feature
from elwood.agent.parts import WORLD, Actor, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.features.console.actor import (
    CONSOLE,
    OWNER,
    ROUTE,
    ConsoleIntake,
    ConsoleOutbox,
    Lines,
    inbound,
    read_fd,
    write_fd,
)
from elwood.foundation.runtime import Mailbox, in_thread


def _printer(post: Mailbox[OutboxMail], outbox: ConsoleOutbox) -> Actor:
    return Actor(step=1, mailbox=post, body=outbox.run, policy=WORLD)


def _reader(body: Callable[[Mailbox[None]], Awaitable[None]]) -> Actor:
    return Actor(step=5, mailbox=Mailbox("console", 16), body=body, policy=WORLD, grace=1.0)


async def talk(core: Core, others: Gathered) -> Parts:
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    lines = Lines(read_fd(0))
    outbox = ConsoleOutbox(
        write_fd(1, in_thread),
        entered=(lambda: lines.count) if terminal else None,
        aside=None if terminal else write_fd(2, in_thread),
    )
    post: Mailbox[OutboxMail] = Mailbox("outbox console", 256)
    intake = ConsoleIntake(
        lines,
        core.sessions,
        post.address,
        new_id=core.environment.new_id,
        now=core.clock.now,
        quiet=core.live.quiet,
        done=core.stop,
        terminal=terminal,
    )

    def interrupt() -> bool:
        state = core.live.states.get(CONSOLE)
        return intake.interrupt(busy=bool(state and (state.turn or state.waiting)))

    async def listen(mailbox: Mailbox[None]) -> None:
        core.up.set()
        await intake.run(mailbox)

    channel = Channel(
        name=ROUTE.channel,
        outbox=post.address,
        owner=(ROUTE,),
        owners=frozenset({OWNER.id}),
        serves=lambda name: not name.startswith(PREFIX),
        session=lambda route: CONSOLE,
    )
    return Parts(
        channels=[channel],
        actors=[_printer(post, outbox), _reader(listen)],
        interrupt=interrupt if terminal else None,
    )


class OneMessage:
    """Says one thing in *session*, waits for the answer, and stops the app."""

    def __init__(self, session: str, text: str) -> None:
        self.session = session
        self.is_answered = False
        self._text = text

    @property
    def feature(self) -> Feature:
        """The console for this message; what goes wrong is told apart from the answer."""
        return Feature(name="once", build=self._build)

    async def _build(self, core: Core, others: Gathered) -> Parts:
        answers: Mailbox[OutboxMail] = Mailbox("outbox console", 256)
        notices: Mailbox[OutboxMail] = Mailbox("outbox notices", 256)
        return Parts(
            channels=[
                # They may go into different pipes.
                Channel(
                    name="notices",
                    outbox=notices.address,
                    owner=(Route("notices"),),
                    serves=lambda name: False,
                ),
                Channel(
                    name=ROUTE.channel,
                    outbox=answers.address,
                    owners=frozenset({OWNER.id}),
                    serves=lambda name: name == self.session,
                    session=lambda route: CONSOLE,
                ),
            ],
            actors=[
                _printer(
                    answers, ConsoleOutbox(write_fd(1, in_thread), aside=write_fd(2, in_thread))
                ),
                _printer(notices, ConsoleOutbox(write_fd(2, in_thread))),
                _reader(partial(self._say, core)),
            ],
        )

    async def _say(self, core: Core, mailbox: Mailbox[None]) -> None:
        id_ = f"once:{core.environment.new_id()}"
        make = partial(inbound, self.session, id_, self._text, core.clock.now())
        core.up.set()
        match await core.sessions.insist(make):
            case Taken():
                await core.live.quiet()
                self.is_answered = not core.live.failed(self.session)
            case Busy(count):
                _complain(f"{count} messages are waiting in this conversation already")
            case Refused(why) | NotNow(why):
                _complain(why)
        core.stop.set()
        async for _ in mailbox:
            pass


def _complain(why: str) -> None:
    print(f"I did not take that: {why}", file=sys.stderr)
