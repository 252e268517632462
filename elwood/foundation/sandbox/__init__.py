"""Where commands run: a ladder of sandboxes, each tested before it is trusted (docs/sandbox.md)."""

from elwood.foundation.sandbox.command import (
    Command,
    Executor,
    NoSandbox,
    Outcome,
    Rung,
    SandboxFailed,
)
from elwood.foundation.sandbox.picking import Picked, pick
from elwood.foundation.sandbox.running import reap
from elwood.foundation.sandbox.settings import SandboxSettings

__all__ = [
    "Command",
    "Executor",
    "NoSandbox",
    "Outcome",
    "Picked",
    "Rung",
    "SandboxFailed",
    "SandboxSettings",
    "pick",
    "reap",
]
