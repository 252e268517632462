"""Run Elwood: as a service, on the console, for one message, or as a demo."""

import atexit
import gc
import logging
import math
import os
import shutil
import signal
import sys
import tempfile
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import trio

from elwood.agent.conversation.settings import Owner
from elwood.agent.feature import Feature
from elwood.agent.models.actor import TELL_AFTER
from elwood.agent.models.client import Provider
from elwood.agent.models.providers import make_provider
from elwood.agent.models.routing import split_name
from elwood.agent.models.settings import (
    ROLES,
    ModelSettings,
    Providers,
    ProviderSettings,
    RoleSettings,
    key_remedy,
    lacks_key,
    models_in_use,
)
from elwood.agent.parts import Interruption
from elwood.agent.session.restored import RestoredDamaged
from elwood.app.build import LAST_TURN, App, build
from elwood.app.init import copy_documents, find_local_zone
from elwood.app.installation import Installation, watch
from elwood.app.main import AT_START, CHANNELS, CHAT, FEATURES, SIT
from elwood.foundation.command_line import FAILURE, INTERRUPTED, MISCONFIGURED, OK, CliFailure
from elwood.foundation.environment import Environment, Notify
from elwood.foundation.log import LogSettings, to_file
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import Escalated
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.secrets.redaction import redact
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.disk import AlreadyRunning, DiskFull, lock_state
from elwood.foundation.storage.version import claim

log = logging.getLogger("elwood")

NO_CHANNEL = (
    "no channel is set up, and with sandbox.kind = direct no terminal may join, so no one could "
    "reach Elwood. Set telegram.token (a credential, a file or TELEGRAM_BOT_TOKEN), or use "
    "`elwood chat`."
)


def run(
    config: Config,
    given: Namespace | None = None,
    *,
    more: Sequence[Feature] = (),
    grace: float = LAST_TURN,
) -> int:
    """Run the service until SIGTERM; return the exit code.

    *more* features come after ours.  Work in progress may continue for *grace* seconds after
    SIGTERM.
    """

    async def body() -> int:
        environment = Environment(notify=Notify.from_environment(os.environ, os.getpid()))
        features = (*CHANNELS, *FEATURES, *more)
        return await _run_app(config, environment, features, grace=grace, is_service=True)

    return _run_body(config, body)


def run_own_app(
    config: Config, session: str, sitting: object, mode: str = "talk", dry_run: bool = False
) -> int:
    """Run an app for the console or one message, with *sitting* in *session*."""
    home = Feature(name="console", build=lambda *args: SIT(*args, session, mode, sitting))

    async def body() -> int:
        # Scheduled work is only for an app that stays.
        return await _run_app(
            config,
            Environment(),
            (home, *FEATURES),
            dry_run=dry_run,
            stays=mode == "talk",
            patience=config.get(ModelSettings).patience,
        )

    return _run_body(config, body)


# Introduction of the demo.
TRY = """\
This is Elwood with an offline model. It knows eight commands.
Everything else is real. Try:
  write notes.txt: buy milk           the last lines show what was done
  run mv notes.txt milk.txt           asks first; press Tab, then y to allow
  remind me in 1 minute to call mum   you get a message in a minute
"help" lists the commands.
/quit ends the demo and deletes everything it created."""


def demo(nothing: Config, given: Namespace) -> int:
    """Run the console with the rule-based model in a temporary folder; return the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="elwood-demo-"))
    # At any exit; before the app handles SIGTERM, the signal acts like a Ctrl-C.
    atexit.register(_remove_folder, folder)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    paths = Paths(state=folder, workspace=folder / "workspace", runtime=folder / "run")
    copy_documents(paths.workspace, say=lambda line: None)
    config = Config.from_values(
        paths,
        ModelSettings(roles={role: RoleSettings(model="offline/rules") for role in ROLES}),
        Providers({"offline": ProviderSettings(api="offline")}),
        Owner(timezone=find_local_zone()),
        file=folder / "config.toml",
    )
    given = Namespace(session=None, last=False, plain=given.plain, features=())
    return CHAT(config, given, run_own_app, TRY)


def _remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if sys.stdin.isatty():
        print(
            f"The demo could not delete its folder {folder}."
            if folder.exists()
            else f"The demo has deleted everything it created ({folder})."
        )


# --- how it runs ----------------------------------------------------------------------------------


def _run_body(config: Config, body: Callable[[], Awaitable[int]]) -> int:
    state = config.get(Paths).state
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock_state(state):
            for feature in FEATURES:
                if feature.mend is not None and (done := feature.mend(config)):
                    log.warning(done)
            claim(state)
            if not config.get(Paths).workspace.exists():
                # A first start without `elwood init`, as under NixOS.
                copy_documents(config.get(Paths).workspace, say=log.info)
            to_file(config.get(LogSettings), lambda text: redact(text, config.secrets))
            for what, remedy in config.warnings:
                log.warning(f"{what}; {remedy}")
            for finding in (one for check_start in AT_START for one in check_start(config)):
                level = logging.ERROR if finding.level == "problem" else logging.WARNING
                log.log(level, f"{finding.what}; {finding.remedy}")
            _tune_collector()
            return trio.run(body)
    except CliFailure as error:
        print(error, file=sys.stderr)
        return error.code
    except (AlreadyRunning, DiskFull, Escalated, RestoredDamaged) as error:
        print(error, file=sys.stderr)
        return FAILURE
    except OSError as error:
        print(f"{error.strerror}: {error.filename or state}", file=sys.stderr)
        return FAILURE


def _tune_collector() -> None:
    """Run the garbage collector less often: imported objects stay, and cycles are rare here.

    A thousand conversations are a million objects; by Python's defaults all of them would be
    scanned every few hundred new ones (measured: a sixth of the CPU time).
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


async def _run_app(
    config: Config,
    environment: Environment,
    features: Sequence[Feature],
    *,
    dry_run: bool = False,
    stays: bool = True,
    grace: float = LAST_TURN,
    patience: float = math.inf,
    is_service: bool = False,
) -> int:
    failure: Exception | None = None
    got = list[int]()
    installation = Installation()
    providers = _make_providers(config, environment)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as now:
                try:
                    async with build(
                        config,
                        environment,
                        features,
                        providers,
                        dry_run=dry_run,
                        stays=stays,
                        grace=grace,
                        patience=patience,
                    ) as app:
                        if is_service and not app.core.channels.has_lasting:
                            if config.get(SandboxSettings).kind == "direct":
                                raise CliFailure(f"{config.file}: {NO_CHANNEL}", MISCONFIGURED)
                            log.info("no channel is set up; talk with: elwood chat")
                        nursery.start_soon(_watch_signals, signals, got, app, now)
                        nursery.start_soon(watch, installation, app.core, app.core.tell_owner)
                        await app.run()
                except Exception as error:
                    failure = error  # inside the nursery it would become a group
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if got and not stays:
        return 128 + got[0]  # exit status as in a shell
    if now.cancelled_caught:
        raise KeyboardInterrupt
    return OK


async def _watch_signals(
    signals: AsyncIterator[int], got: list[int], app: App, now: trio.CancelScope
) -> None:
    """Stop in order at the first signal, cancel at the second, exit at the third.

    A feature may handle the first signals.  Each signal is appended to *got*.
    """
    async for number in signals:
        got.append(number)
        core = app.core
        if now.cancel_called:
            os._exit(INTERRUPTED)  # the logs are as complete as after any other exit
        ending: Interruption = "leave" if core.stop.is_set() else "end"
        if ending == "end" and app.interrupt is not None:
            ending = app.interrupt(number)
        if ending == "leave":
            log.warning("asked to stop immediately")
            now.cancel()
        elif ending == "end":
            log.info("asked to stop")
            busy = [state for state in core.live.states.values() if not state.is_idle]
            if busy and sys.stderr.isatty():
                under_way = [state.turn.under_way for state in busy if state.turn is not None]
                what = core.redactor(", ".join(under_way)) or "sending messages"
                print(f"\nStopping: still {what}. Press Ctrl-C again to quit now.", file=sys.stderr)
            core.stop.set()


def _make_providers(config: Config, outside: Environment) -> dict[str, Provider]:
    providers: dict[str, Provider] = {}
    for name in sorted({split_name(model)[0] for model in models_in_use(config)}):
        settings = config.get(Providers).by_name[name]
        if lacks_key(settings):
            log.error(f"there is no key for {name}: {key_remedy(name)}")
        providers[name] = make_provider(
            name,
            settings,
            client=Client(connections=settings.in_flight, connect_timeout=TELL_AFTER),
            new_id=outside.new_id,
        )
    return providers
