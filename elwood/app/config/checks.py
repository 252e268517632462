"""Knows which values make sense: checks for single keys."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from elwood.app.config.problems import Wrong
from elwood.features.tasks import patterns as watching
from elwood.features.tasks.notation import (
    advice,
    read_hours,
    read_moment,
    read_route,
    read_when,
)
from elwood.features.tasks.task_toml import MAX_PROMPT, MAX_TITLE, bad_id

Check = Callable[[object], None]
# What a session may be called; it becomes the name of a file.
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def at_least(least: float) -> Check:
    """Make a check for numbers that must not be smaller than *least*."""

    def check(value: object) -> None:
        if isinstance(value, int | float) and not value >= least:  # nan is not
            raise Wrong(f"{value:g} is too small", f"the least is {least:g}")

    return check


def between(least: float, most: float) -> Check:
    """Make a check for numbers from *least* to *most*."""

    def check(value: object) -> None:
        if isinstance(value, int | float) and not least <= value <= most:
            raise Wrong(f"{value:g} is out of range", f"it must be from {least:g} to {most:g}")

    return check


def none_or(least: float, most: float) -> Check:
    """Make a check for numbers from *least* to *most*, or 0, which means none."""
    inner = between(least, most)

    def check(value: object) -> None:
        if value != 0:
            inner(value)

    return check


def is_timezone(value: object) -> None:
    """Check for a name of the IANA time zone database."""
    try:
        ZoneInfo(str(value))
    except (OSError, ValueError):  # ZoneInfoNotFoundError is a KeyError on top of these
        raise Wrong(f"there is no time zone {value!r}", "write a name like Europe/Berlin") from None
    except KeyError:
        raise Wrong(f"there is no time zone {value!r}", "write a name like Europe/Berlin") from None


def is_url(value: object) -> None:
    """Check for the beginning of an address to which paths are added."""
    remedy = "write an address like https://api.example.org/v1"
    try:
        parts = urlsplit(str(value))
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise Wrong("not an http or https address", remedy)
    if parts.username is not None or parts.password is not None:
        raise Wrong("the address holds a user name or password", "give the key as key")
    if parts.query or parts.fragment:
        raise Wrong("the address has a ? or # part", remedy)


def is_model(value: object) -> None:
    """Check for ``provider/name``."""
    provider, slash, name = str(value).partition("/")
    if not (provider and slash and name):
        raise Wrong(f"{value!r} is not a model", "write provider/name, as in openai/gpt-5")


def is_user(value: object) -> None:
    """Check for the id of a Telegram user, which is positive."""
    if isinstance(value, int) and value <= 0:
        raise Wrong(f"{value} is not the id of a user", "groups belong to telegram.groups")


def is_group(value: object) -> None:
    """Check for the id of a Telegram group, which is negative."""
    if isinstance(value, int) and value >= 0:
        raise Wrong(f"{value} is not the id of a group", "users belong to telegram.owners")


def is_port(value: object) -> None:
    """Check for the number of a TCP port."""
    if isinstance(value, int) and not 1 <= value <= 65_535:
        raise Wrong(f"{value} is not the number of a port", "it must be from 1 to 65535")


def is_role(value: object) -> None:
    """Check for what a task may think with: cheap, default, or a model."""
    if value not in ("cheap", "default"):
        provider, slash, name = str(value).partition("/")
        if not (provider and slash and name):
            raise Wrong(f"{value!r} is not a model", "write cheap, default or provider/name")


def is_when(value: object) -> None:
    """Check for a time that means the same whenever it is read."""
    _need(read_when(str(value), "UTC"))


def is_moment(value: object) -> None:
    """Check for a date, or a date and time."""
    if value:
        _need(read_moment(str(value), "UTC"))


def is_hours(value: object) -> None:
    """Check for hours of the day, maybe of some days only."""
    _need(read_hours(str(value)))


def is_place(value: object) -> None:
    """Check for a channel, with a chat or without."""
    if value:
        _need(read_route(str(value)))


def is_task_id(value: object) -> None:
    """Check for the id of a task."""
    if value:
        _need(bad_id(str(value)) or None)


def is_watched(value: object) -> None:
    """Check for a pattern of files of the workspace."""
    _need(watching.complaint(str(value)) or None)


def is_session(value: object) -> None:
    """Check for the name of a conversation."""
    if value and not _SESSION.fullmatch(str(value)):
        raise Wrong("not a name for a conversation", "use letters, digits, dots, - and _")


def is_zone(value: object) -> None:
    """Check for a time zone, or none."""
    if value:
        is_timezone(value)


def is_prompt(value: object) -> None:
    """Check that a text may be sent with each run."""
    _need_short(value, MAX_PROMPT)


def is_title(value: object) -> None:
    """Check that a title fits into lists."""
    _need_short(value, MAX_TITLE)


def _need_short(value: object, most: int) -> None:
    if len(str(value)) > most:
        raise Wrong(f"longer than {most} characters", "shorten it")


def _need(made: object) -> None:
    if isinstance(made, str):
        raise Wrong(*advice(made))
