"""What a skill says it needs of the machine, and whether it is there."""

import re
from collections.abc import Mapping

import attrs

from elwood.features.skills.flow import Value

# Names of one kind that are looked for.
MAX_NAMES = 20
_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_SYSTEMS = {"darwin": "macOS", "win32": "Windows", "linux": "Linux"}


@attrs.frozen
class Needs:
    """Programs that must all exist, programs of which one must, variables, and operating systems.

    Systems are named as in OpenClaw's skills: linux, darwin, win32.
    """

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    os: tuple[str, ...] = ()

    @property
    def programs(self) -> tuple[str, ...]:
        """All programs that have to be looked for."""
        return (*self.bins, *self.any_bins)


@attrs.frozen
class There:
    """What commands find: *bins* and *env* of those that were looked for, and the system *os*."""

    bins: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()
    os: str = "linux"


def needs_of(metadata: Value) -> Needs:
    """Read ``requires`` out of a skill's metadata: ours, a text, or the nested one of OpenClaw.

    >>> needs_of({"requires": "bins: git, gh; env: TOKEN; os: linux"})
    Needs(bins=('git', 'gh'), any_bins=(), env=('TOKEN',), os=('linux',))
    >>> needs_of({"openclaw": {"requires": {"anyBins": ("rg", "grep")}, "os": ("linux",)}})
    Needs(bins=(), any_bins=('rg', 'grep'), env=(), os=('linux',))
    >>> needs_of("")
    Needs(bins=(), any_bins=(), env=(), os=())
    """
    if not isinstance(metadata, Mapping):
        return Needs()
    inner = metadata.get("openclaw", metadata)
    if not isinstance(inner, Mapping):
        return Needs()
    requires = inner.get("requires", "")
    if isinstance(requires, str):
        pairs = (part.partition(":") for part in requires.split(";"))
        requires = {key.strip(): value for key, _, value in pairs}
    found = requires if isinstance(requires, Mapping) else {}
    return Needs(
        _names(found.get("bins", "")),
        _names(found.get("anyBins", found.get("any", ""))),
        _names(found.get("env", "")),
        _names(found.get("os", inner.get("os", ""))),
    )


def missing(needs: Needs, there: There) -> str | None:
    """Say what of *needs* is not *there*, and what to do; None if all is.

    >>> missing(Needs(bins=("git",)), There(frozenset({"git"})))
    >>> missing(Needs(bins=("gh",), os=("darwin",)), There())
    'it is made for macOS, and needs the program gh, which is not installed where commands run'
    >>> missing(Needs(env=("TOKEN",)), There())
    'it needs the variable TOKEN, and Elwood gives commands no variables of yours'
    """
    reasons = []
    if needs.os and there.os not in needs.os:
        systems = " or ".join(_SYSTEMS.get(name, name) for name in needs.os)
        reasons.append(f"is made for {systems}")
    absent = [name for name in needs.bins if name not in there.bins]
    if absent:
        what, which = ("program", "is") if len(absent) == 1 else ("programs", "are")
        names = ", ".join(absent)
        reasons.append(f"needs the {what} {names}, which {which} not installed where commands run")
    if needs.any_bins and not there.bins.intersection(needs.any_bins):
        reasons.append(f"needs one of the programs {', '.join(needs.any_bins)}; none is installed")
    unset = [name for name in needs.env if name not in there.env]
    if unset:
        what = "variable" if len(unset) == 1 else "variables"
        names = ", ".join(unset)
        reasons.append(f"needs the {what} {names}, and Elwood gives commands no variables of yours")
    return f"it {', and '.join(reasons)}" if reasons else None


def _names(value: Value) -> tuple[str, ...]:
    if isinstance(value, str):
        value = tuple(value.replace(",", " ").split())
    if isinstance(value, Mapping):
        return ()
    names = (name for name in value if isinstance(name, str) and _NAME.fullmatch(name))
    return tuple(dict.fromkeys(names))[:MAX_NAMES]
