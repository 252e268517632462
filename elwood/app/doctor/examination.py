"""Puts all checks together, and shows what they found."""

import shutil
import time
from collections.abc import MutableMapping
from pathlib import Path

import trio

from elwood.app.config.load import ConfigErrors, load
from elwood.app.config.settings import Config
from elwood.app.doctor.findings import Finding, table
from elwood.app.doctor.local import examine_machine
from elwood.app.doctor.planned import examine_plans
from elwood.app.doctor.sandboxed import examine_sandbox
from elwood.app.doctor.services import examine_services
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import Blocking, in_thread
from elwood.foundation.secrets.redaction import Secret, redact


def doctor(path: Path, environ: MutableMapping[str, str]) -> int:
    """Examine everything that the configuration in *path* names; return the exit code."""
    try:
        config = load(path, environ)
    except ConfigErrors as errors:
        findings = [
            Finding("problem", "configuration", problem.complaint, problem.remedy)
            for problem in errors.problems
        ]
        secrets: tuple[Secret, ...] = ()
    else:
        findings = trio.run(_examine, config)
        secrets = config.secrets
    print(redact(table(findings, shutil.get_terminal_size((100, 24)).columns), secrets))
    return 1 if any(finding.level == "problem" for finding in findings) else 0


async def _examine(config: Config) -> list[Finding]:
    client = Client(connections=10)
    try:
        return await examine(config, client, time.time(), in_thread)
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5.0):
            await client.aclose()


async def examine(config: Config, client: Client, now: float, blocking: Blocking) -> list[Finding]:
    """Examine this machine, its sandbox, and then the services outside; *now* is Unix seconds."""
    machine = await blocking(lambda: examine_machine(config))
    machine += await blocking(lambda: examine_plans(config, now))
    sandbox = await examine_sandbox(config, blocking)
    return machine + sandbox + await examine_services(config, client, now)
