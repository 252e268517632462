"""The wiring of the house."""

from elwood.config import Config


def run(config: Config) -> int:
    """Run the service until SIGTERM; return the exit code."""
    raise NotImplementedError


def chat(config: Config) -> int:
    """Talk on the console; return the exit code."""
    raise NotImplementedError


def once(config: Config, text: str, *, session: str | None, dry_run: bool, verbose: bool) -> int:
    """Answer *text* on stdout; return the exit code."""
    raise NotImplementedError
