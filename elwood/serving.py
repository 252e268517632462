"""The ways to run the house: as a service, on the console, for one message, as a demonstration."""

import gc
import logging
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import attrs
import trio

from elwood.actors.console import ROUTE, ConsoleIntake, ConsoleOutbox
from elwood.actors.telegram import Intake
from elwood.actors.telegram_outbox import Outbox
from elwood.app import LAST_TURN, House
from elwood.config import Config, Paths
from elwood.core.identity import PREFIX, Principal
from elwood.core.pacing import paced
from elwood.core.routing import ModelSettings, ProviderSettings, candidates, split_name
from elwood.core.session import Route
from elwood.installing import copy_documents
from elwood.messages import Busy, Inbound, NotNow, OutboxMail, Refused, Taken
from elwood.outside import Body, Channel, Doors, Outside
from elwood.runtime import Escalated, Mailbox, in_thread
from elwood.store.lock import AlreadyRunning, holding
from elwood.tools import Tool
from elwood.tools.builtin import builtin
from elwood.wire.http import Client
from elwood.wire.notify import Notify
from elwood.wire.provider import Provider
from elwood.wire.providers import make_provider
from elwood.wire.telegram import Bot
from elwood.wire.telegram_settings import TelegramSettings
from elwood.wire.terminal import Lines, read_fd, write_fd

log = logging.getLogger("elwood")

OK, FAILURE, MISCONFIGURED = 0, 1, 78
OWNER = Principal("console", "owner", owner=True)


def run(config: Config, *, more_tools: Sequence[Tool] = (), grace: float = LAST_TURN) -> int:
    """Run the service until SIGTERM; return the exit code.

    *more_tools* stand beside the built-in ones.  What has begun may go on for *grace* seconds
    after SIGTERM.
    """
    if config.telegram.token is None:
        print(
            f"{config.file}: no channel is set up, so nobody could talk to me. Set telegram.token "
            "(a credential, a file or ELWOOD_TELEGRAM_TOKEN), or try `elwood chat`.",
            file=sys.stderr,
        )
        return MISCONFIGURED

    async def body() -> int:
        notify = Notify.from_environment(os.environ, os.getpid())
        outside, channels = Outside(notify=notify), [_telegram(config.telegram)]
        return await _live(config, outside, channels, more_tools=more_tools, grace=grace)

    return _run(config, body)


def chat(config: Config) -> int:
    """Talk on the console; return the exit code."""

    async def body() -> int:
        return await _live(config, Outside(), [_console()])

    return _run(config, body)


def once(config: Config, text: str, *, session: str | None, dry_run: bool) -> int:
    """Answer *text* on stdout; return 1 if the answer is a statement of failure."""
    said = _Saying(session or f"once-{secrets.token_hex(4)}", text)

    async def body() -> int:
        console = attrs.evolve(
            _console(), intake=said.intake, owner=(), serves=lambda name: name == said.session
        )
        await _live(config, Outside(), [_notices(), console], dry_run=dry_run)
        return OK if said.is_answered else FAILURE

    return _run(config, body)


def demo() -> int:
    """Talk on the console with the rule-based model, in a fresh folder; return the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="elwood-demo-"))
    paths = Paths(state=folder, workspace=folder / "workspace", runtime=folder / "run")
    copy_documents(paths.workspace, say=lambda line: None)
    config = Config(
        paths=paths,
        models=ModelSettings(default="offline/rules", summarizer="offline/rules"),
        providers={"offline": ProviderSettings(api="offline")},
        file=folder / "config.toml",
    )
    if sys.stdin.isatty():
        print(
            "This is Elwood with an offline model: a few rules, no language model. Everything\n"
            f"else is real; the state is in {folder}.\n"
            'Try "help", "list the files" or "read SOUL.md"; /quit ends.'
        )
    return chat(config)


# --- how it runs ----------------------------------------------------------------------------------


def _run(config: Config, body: Callable[[], Awaitable[int]]) -> int:
    state = config.paths.state
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        config.paths.workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        with holding(state):
            _tune_collector()
            return trio.run(body)
    except (AlreadyRunning, Escalated) as error:
        print(error, file=sys.stderr)
        return FAILURE
    except OSError as error:
        print(f"{error.strerror}: {error.filename or state}", file=sys.stderr)
        return FAILURE


def _tune_collector() -> None:
    """Spend less on the search for garbage: what was imported is none, and cycles are rare here.

    A thousand conversations at once are a million objects, and Python's own figures would have
    them all looked at every few hundred new ones (measured: a sixth of the CPU time).
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


async def _live(
    config: Config,
    outside: Outside,
    channels: list[Channel],
    *,
    dry_run: bool = False,
    more_tools: Sequence[Tool] = (),
    grace: float = LAST_TURN,
) -> int:
    """Run a house until it is stopped."""
    house = House(
        config,
        outside,
        channels,
        providers=_providers(config, outside),
        tools=(*builtin(), *more_tools),
        dry_run=dry_run,
        grace=grace,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch_signals, house.stop)
        await house.live()
        nursery.cancel_scope.cancel()
    return OK


async def _watch_signals(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            log.info("asked to stop")
            stop.set()
            break
    # The next signal does what it always does: nobody has to wait for an orderly end.


def _providers(config: Config, outside: Outside) -> dict[str, Provider]:
    """Make the clients of the providers in use."""
    models = config.models
    names = {*candidates(models, "default"), *candidates(models, "summarizer")}
    providers = {}
    for name in sorted({split_name(model)[0] for model in names}):
        settings = config.providers[name]
        providers[name] = make_provider(
            name,
            settings,
            client=Client(connections=settings.in_flight),
            now=outside.now,
            new_id=outside.new_id,
        )
    return providers


# --- channels -------------------------------------------------------------------------------------


def _telegram(settings: TelegramSettings) -> Channel:
    def intake(doors: Doors) -> Body:
        actor = Intake(
            Bot(settings, Client(connections=4)),
            settings,
            sessions=doors.sessions,
            approvals=doors.approvals,
            outbox=doors.outbox,
            random=doors.outside.random,
        )

        async def body(mailbox: Mailbox[None]) -> None:
            doors.up.set()
            await actor.run(mailbox)

        return body

    async def outbox(mailbox: Mailbox[OutboxMail]) -> None:
        bot = Bot(settings, Client(connections=64))
        pacing = paced(settings.messages_per_second)
        await Outbox(bot, random=Outside().random, pacing=pacing).run(mailbox)

    return Channel(
        name="telegram",
        outbox=outbox,
        intake=intake,
        owner=tuple(Route("telegram", chat=user) for user in settings.owners),
        owners=frozenset(f"tg:{user}" for user in settings.owners),
        serves=lambda name: name.startswith(PREFIX),
    )


def _console() -> Channel:
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    outbox = ConsoleOutbox(write_fd(1, in_thread), terminal=terminal)

    def intake(doors: Doors) -> Body:
        doors.up.set()
        return ConsoleIntake(
            Lines(read_fd(0)),
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
    )


def _notices() -> Channel:
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


class _Saying:
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
