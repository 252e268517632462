"""Check that the tools and channels named in the configuration exist."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

import msgspec

from elwood.agent.policy.settings import is_about
from elwood.foundation.settings import BadSetting, Key, Where, suggest_name

_WILDCARDS = re.compile(r"[*?\[]")
ALL_TOOLS = "docs/reference/tools.md lists all tools"
PATTERNS = "patterns are compared with the ids in docs/reference/tools.md, such as web.*"
# Loggers outside the features: a logger is called elwood.NAME.
COMPONENTS = ("approvals", "channels", "models", "records", "sessions", "tools")


class KnownNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names that settings may use."""

    tools: Mapping[str, str]  # ids by name
    prefixes: Mapping[str, str]  # prefixes of further tools
    channels: Mapping[str, Callable[[str, str], bool]]  # `Feature.is_chat` by channel
    components: Collection[str]  # names of loggers


class DoubtfulSetting(BadSetting):
    """A value that may be valid: it cannot be checked yet."""


def check_names(
    values: Iterable[tuple[Where, Key, object]], known: KnownNames
) -> Iterator[tuple[Where, BadSetting]]:
    """Yield the *values* that should be names and are unknown."""
    for where, key, value in values:
        name = str(where[-1] if key.named_by_key else value)
        if not name or key.names is None or isinstance(value, int):  # the number of a chat
            continue
        try:
            if key.names == "channel":
                _check_channel(name, known.channels)
            elif key.names == "component":
                _check_component(name, known.components)
            elif key.names == "tool pattern" and _WILDCARDS.search(name):
                _check_pattern(name, known)
            else:
                _check_tool(name, known, by_id=key.names == "tool pattern")
        except BadSetting as error:
            yield where, error


def _check_channel(place: str, channels: Mapping[str, Callable[[str, str], bool]]) -> None:
    name, _, within = place.partition(":")
    if name not in channels:
        remedy = suggest_name(name, channels) or f"there are {', '.join(sorted(channels))}"
        raise BadSetting(f"there is no channel {name}", remedy)
    chat, _, thread = within.partition(":")
    if chat and not channels[name](chat, thread):
        raise BadSetting(f"{place} is not a chat of {name}", f"write an id in the format of {name}")


def _check_component(name: str, components: Collection[str]) -> None:
    if name not in components:
        remedy = suggest_name(name, components) or f"use one of {', '.join(sorted(components))}"
        raise BadSetting("no component has this name", remedy)


def _check_tool(name: str, known: KnownNames, *, by_id: bool) -> None:
    if name in known.tools or (by_id and name in known.tools.values()):
        return
    starts = (*known.prefixes, *(known.prefixes.values() if by_id else ()))
    if name.startswith(starts):
        what = f"no MCP server has an accepted tool {name}"
        raise DoubtfulSetting(what, "compare it with the list of /mcp")
    if _WILDCARDS.search(name):
        raise BadSetting(f"{name} is not the name of a tool", "write names, without wildcards")
    called = [tool for tool, id_ in known.tools.items() if id_ == name]
    others = (*known.tools, *(known.tools.values() if by_id else ()))
    remedy = suggest_name(called[0] if called else name, others) or ALL_TOOLS
    raise BadSetting(f"there is no tool {name}", remedy)


def _check_pattern(pattern: str, known: KnownNames) -> None:
    if any(is_about(pattern, name, id_) for name, id_ in known.tools.items()):
        return
    head = _WILDCARDS.split(pattern)[0]
    if any(one.startswith(head) or head.startswith(one) for one in known.prefixes.values()):
        what = f"no accepted tool of an MCP server matches {pattern}"
        raise DoubtfulSetting(what, "compare it with the list of /mcp")
    # Written as a name pattern, it may mean a whole integration.
    candidates = {_family(id_) for name, id_ in known.tools.items() if fnmatchcase(name, pattern)}
    families = sorted(set(map(_family, known.tools.values())))
    near = (
        f"did you mean {candidates.pop()}?"
        if len(candidates) == 1
        else suggest_name(pattern, families)
    )
    raise DoubtfulSetting(f"no tool matches {pattern}", near or PATTERNS)


def _family(id_: str) -> str:
    """Return the pattern of all tools of an integration."""
    return f"{id_.partition('.')[0]}.*"
