"""The command ``elwood``: knows its sub-commands, and what each needs before it can begin.

Nothing heavy is imported here: each command imports what it runs, so that ``elwood --help`` is
quick and works whatever is broken.
"""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from elwood.app.cli.parser import (
    SINCE,
    default_config,
    found,
    parser_for,
)

if TYPE_CHECKING:
    from elwood.app.config.settings import Config

# Exit codes; 78 is EX_CONFIG of sysexits.h, at which systemd does not start us again.
OK, FAILURE, USAGE, MISCONFIGURED = 0, 1, 2, 78
INTERRUPTED = 130  # what a shell shows for a command ended by Ctrl-C: 128 + SIGINT
IMPORTING = 100_000  # new objects until garbage is looked for: a sixth of a start's time else


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    gc.set_threshold(IMPORTING)
    parser = parser_for(
        {
            "init": _init,
            "doctor": _doctor,
            "run": _run,
            "demo": _demo,
            "chat": _chat,
            "once": _once,
            "inspect": _inspect,
            "receipts": _receipts,
            "receipts verify": _verify,
            "session list": _session_list,
            "session show": _session_show,
            "session export": _session_export,
            "pair": _pair,
            "approve": _approve,
            "skills": _skills,
            "memory": _memory,
            "backup": _backup,
        }
    )
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    command: Callable[[argparse.Namespace], int] = given.command
    try:
        return command(given)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; Python would complain while flushing at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE


# --- the commands -------------------------------------------------------------------------------


def _init(given: argparse.Namespace) -> int:
    from elwood.app import init as installing

    return installing.install(given.config or default_config(os.environ.get), os.environ)


def _doctor(given: argparse.Namespace) -> int:
    from elwood.app import doctor

    return doctor.doctor(found(given.config), os.environ)


def _run(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood.app import serving

        return serving.run(config)

    return _configured(given, body)


def _demo(given: argparse.Namespace) -> int:
    from elwood.app import serving

    _log_to_stderr("info" if given.verbose else "error", None)
    return serving.demo()


def _chat(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood.app import serving

        return serving.chat(config)

    return _configured(given, body, console=True)


def _once(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood.app import serving

        return serving.once(config, given.text, session=given.session, dry_run=given.dry_run)

    return _configured(given, body, console=True)


def _inspect(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood.features.control import cli as inspecting

        return inspecting.inspect(config.paths.runtime, given.json, given.watch)

    return _configured(given, body, console=True, secrets=False)


def _pair(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood.features.control import cli as inspecting

        return inspecting.pair(config.paths.runtime, given.code)

    return _configured(given, body, console=True, secrets=False)


def _approve(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood.features.control import cli as inspecting
        from elwood.features.control import protocol as wire

        request: wire.Approvals | wire.Rule | wire.Revoke = wire.Approvals()
        if given.revoke is not None:
            request = wire.Revoke(given.revoke)
        elif given.code is not None:
            request = wire.Rule(given.code, "denied" if given.deny else given.answer or "once")
        return inspecting.settle(config.paths.runtime, request)

    lonely = given.deny and given.code is None
    if lonely or (given.deny and given.answer) or (given.code and given.revoke is not None):
        usage = "usage: elwood approve [CODE [ANSWER] | CODE --deny | --revoke N]"
        print(f"{usage}\nDecide one thing at a time, and say which.", file=sys.stderr)
        return USAGE
    return _configured(given, body, console=True, secrets=False)


def _skills(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood.features.skills import cli as teaching

        match given.deed:
            case "install":
                return teaching.install(config, given.source, given.folder, agreed=given.yes)
            case "remove":
                return teaching.remove(config, given.name, agreed=given.yes)
            case _:
                return teaching.list_skills(config)

    return _configured(given, body, console=True, secrets=False)


def _memory(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood.features.control import cli as inspecting
        from elwood.features.control import protocol as wire
        from elwood.features.daily_notes.store import DailyNoteSearch
        from elwood.features.memory import cli as remembering
        from elwood.foundation.runtime import inline

        paths = config.paths
        others = (DailyNoteSearch(paths.state, paths.workspace, inline),)
        match given.what:
            case "list":
                return remembering.show_list(paths.state, given.limit)
            case "search":
                return remembering.search(paths.state, " ".join(given.query), given.limit, others)
            case "show":
                return remembering.show(paths.state, given.key)
            case "forget":
                keys = tuple(given.keys)
                # A house that hangs is one, too, and its word is waited for.
                if inspecting.is_reachable(paths.runtime):
                    return inspecting.settle(paths.runtime, wire.Forget(keys))
                return remembering.forget(paths.state, keys, others)
            case _:
                if inspecting.is_reachable(paths.runtime):
                    return inspecting.settle(paths.runtime, wire.Rebuild())
                return remembering.rebuild(paths.state)

    return _configured(given, body, console=True, secrets=False)


def _backup(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood.features.backup import cli as backing_up

        return backing_up.backup(config, given.what, given.which, agreed=given.yes)

    return _configured(given, body, console=True, secrets=False)


def _receipts(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        import time

        from elwood.agent.session.reading import cli

        zone = config.zone
        since = 0.0 if given.since is None else cli.since(given.since, time.time(), zone)
        if since is None:
            print(f"--since {given.since}: {SINCE}", file=sys.stderr)
            return USAGE
        return cli.receipts(
            config.paths.state,
            zone,
            since=since,
            session=given.session,
            limit=given.limit,
            as_json=given.json,
        )

    return _configured(given, body, console=True, secrets=False)


def _verify(given: argparse.Namespace) -> int:
    from elwood.agent.session.reading import cli

    if given.paths:
        return cli.verify(given.paths)

    def body(config: "Config") -> int:
        return cli.verify([config.paths.state])

    return _configured(given, body, console=True, secrets=False)


def _session_list(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        import time

        from elwood.agent.session.reading import cli

        return cli.list_sessions(config.paths.state, config.zone, time.time())

    return _configured(given, body, console=True, secrets=False)


def _session_show(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from functools import partial

        from elwood.agent.session.reading import cli

        body = partial(
            cli.body_of,
            providers=config.providers,
            default=config.models.default,
            max_tokens=config.models.max_tokens,
        )
        return cli.show(
            config.paths.state,
            given.session,
            config.zone,
            turn=given.turn,
            body=body if given.prompt else None,
        )

    return _configured(given, body, console=True, secrets=False)


def _session_export(given: argparse.Namespace) -> int:
    def body(config: "Config") -> int:
        from elwood.agent.session.reading import cli
        from elwood.foundation.secrets.redaction import redact

        return cli.export(
            config.paths.state,
            given.id,
            config.zone,
            given.format,
            given.output,
            lambda text: redact(text, config.secrets),
        )

    return _configured(given, body, console=True)


def _configured(
    given: argparse.Namespace,
    body: Callable[["Config"], int],
    *,
    console: bool = False,
    secrets: bool = True,
) -> int:
    """Run *body* with the configuration; say what is wrong with it, if anything is.

    On a *console* only what goes wrong is logged, unless the person wants more.  Without *secrets*
    everybody can run it who may read the configuration.
    """
    from elwood.app.config.load import ConfigErrors, load

    try:
        config = load(found(given.config), os.environ, secrets=secrets)
    except ConfigErrors as errors:
        for problem in errors.problems:
            print(problem, file=sys.stderr)
        return MISCONFIGURED
    quiet = console and not getattr(given, "verbose", False)
    _log_to_stderr("error" if quiet else config.log.level, config)
    return body(config)


def _log_to_stderr(level: str, config: "Config | None") -> None:
    from elwood.foundation import log
    from elwood.foundation.secrets.redaction import redact

    hidden = config.secrets if config is not None else ()
    log.set_up(level, lambda text: redact(text, hidden), environ=os.environ)
