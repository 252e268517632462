"""What the operator has decided: config.toml, the environment and the secrets, as one value."""

from elwood.app.config.load import load
from elwood.app.config.problems import ConfigErrors, Problem
from elwood.app.config.settings import (
    Config,
    Log,
    Owner,
    Paths,
    Sessions,
    Watchdog,
)

__all__ = [
    "Config",
    "ConfigErrors",
    "Log",
    "Owner",
    "Paths",
    "Problem",
    "Sessions",
    "Watchdog",
    "load",
]
