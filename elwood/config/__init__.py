"""What the operator has decided: config.toml, the environment and the secrets, as one value."""

from elwood.config.load import load
from elwood.config.problems import ConfigErrors, Problem
from elwood.config.settings import Config, Log, Owner, Paths, Sessions, Watchdog

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
