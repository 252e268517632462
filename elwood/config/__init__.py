"""What the operator has decided: config.toml, the environment and the secrets, as one value."""

from elwood.config.load import load
from elwood.config.problems import ConfigErrors, Problem
from elwood.config.settings import (
    Config,
    Limits,
    Log,
    Models,
    Owner,
    Paths,
    Provider,
    Sessions,
    Telegram,
    Turn,
    Watchdog,
)

__all__ = [
    "Config",
    "ConfigErrors",
    "Limits",
    "Log",
    "Models",
    "Owner",
    "Paths",
    "Problem",
    "Provider",
    "Sessions",
    "Telegram",
    "Turn",
    "Watchdog",
    "load",
]
