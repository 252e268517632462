"""A note: text kept across conversations, as a Markdown file that people may edit.

Parsing never fails and loses nothing: each file is a note.  A header that cannot be parsed means
the worst: the note is untrusted unless the header says otherwise, and pending if its status is
unknown.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Literal, get_args

import msgspec

from elwood.agent.conversation.labels import Label
from elwood.foundation.text.lines import one_line
from elwood.foundation.text.words import KEY

TAG = r"^\w[\w-]{0,31}$"
TTL = r"^[1-9][0-9]{0,3}[hdwmy]$"
# Characters of one note: about ten pages.
MAX_NOTE = 20_000
# Tags of one note, and characters of its source.
MAX_TAGS, MAX_SOURCE = 10, 200
# Characters of a time: ISO 8601 with a zone.
MAX_TIME = 32
# Bytes of a file that are read: a note in the longest encoding, and its header.
MAX_FILE = 4 * MAX_NOTE + 4096

Status = Literal["active", "pending", "archived"]
# Names in files, including older ones; an unknown status means pending.
STATUSES: dict[str, Status] = {one: one for one in get_args(Status)} | {"kept": "active"}
Kind = Literal["fact", "preference", "procedure", "episode"]
KINDS: tuple[Kind, ...] = get_args(Kind)
WORST = Label(untrusted=True, private=True)
# Seconds of the units of a time to live; months and years are rounded.
_SECONDS = {"h": 3600, "d": 86_400, "w": 7 * 86_400, "m": 30 * 86_400, "y": 365 * 86_400}
_HEAD = re.compile(r"---[ \t]*\n(.*?\n)??---[ \t]*(?:\n+(.*))?", re.DOTALL)
_FIELD = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(.*)")


class Note(msgspec.Struct, frozen=True):
    """A note.  Pending and archived ones are neither found nor offered."""

    key: str
    text: str
    tags: tuple[str, ...] = ()
    source: str = ""
    ttl: str = ""  # time to live after *updated*, as ``30d``; empty: unlimited
    status: Status = "active"  # pending ones wait for the owner
    label: Label = WORST
    created: str = ""  # ISO 8601, UTC
    updated: str = ""
    more: tuple[str, ...] = ()  # other lines of the header, also the kind

    @property
    def untrusted(self) -> bool:
        """Return True if it may hold strangers' words."""
        return self.label.untrusted

    @property
    def kind(self) -> Kind:
        """Kind of the note, "fact" by default.

        >>> Note("tea", "Green.", more=("kind: preference",)).kind, Note("tea", "Green.").kind
        ('preference', 'fact')
        """
        value = fields_of(self.more).get("kind")
        return next((kind for kind in KINDS if kind == value), "fact")

    @property
    def is_observation(self) -> bool:
        """Return True if it is an observation (`learning.Observation`); several may be alike."""
        return "about" in fields_of(self.more)

    @property
    def words(self) -> str:
        """Text that a search matches."""
        return f"{self.key} {' '.join(self.tags)} {self.text}"

    @property
    def subject(self) -> str:
        """Key of the note, or of the note that an observation would become.

        >>> Note("tea", "Green.").subject, Note("seen-1", "Green.", more=("about: tea",)).subject
        ('tea', 'tea')
        """
        return fields_of(self.more).get("about") or self.key


class NoteDraft(msgspec.Struct, frozen=True):
    """A note to save; a field that is None keeps the value of an existing note."""

    key: str
    text: str
    label: Label
    source: str = ""
    tags: tuple[str, ...] | None = None
    ttl: str | None = None
    status: Status = "active"
    more: tuple[str, ...] | None = None
    kind: Kind | None = None


def wrong(draft: NoteDraft) -> str | None:
    """Return the reason why *draft* cannot be saved; None if it can.

    >>> wrong(NoteDraft("tea", "Green.", Label()))
    >>> wrong(NoteDraft("Tea!", "Green.", Label()))
    'a key has 1 to 64 lowercase letters, digits and hyphens'
    """
    tags = draft.tags or ()
    if not re.fullmatch(KEY, draft.key) or draft.key.endswith("\n"):
        return "a key has 1 to 64 lowercase letters, digits and hyphens"
    if len(tags) > MAX_TAGS or not all(re.fullmatch(TAG, t) and t[-1] != "\n" for t in tags):
        return f"a note has at most {MAX_TAGS} tags of one word each"
    if not draft.text.strip():
        return "a note needs text"
    if len(draft.text) > MAX_NOTE:
        return f"a note has at most {MAX_NOTE:,} characters"
    if draft.ttl and seconds(draft.ttl) is None:
        return "a time to live is a number with h, d, w, m or y, like 30d"
    return None


def seconds(ttl: str) -> int | None:
    return int(ttl[:-1]) * _SECONDS[ttl[-1]] if re.fullmatch(TTL, ttl.strip()) else None


def expires(note: Note) -> float | None:
    """Return the Unix time when *note* expires; None if never or unknown."""
    ttl = seconds(note.ttl)
    since = moment(note.updated)
    if since is None:
        since = moment(note.created)
    return since + ttl if ttl is not None and since is not None else None


def is_alive(note: Note, now: float) -> bool:
    """Return True if *note* has not expired at *now* (Unix time)."""
    return (until := expires(note)) is None or until > now


def format_time(now: float) -> str:
    """Format the Unix time *now* for a note."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")


def moment(value: str) -> float | None:
    """Parse a time of a note as Unix time; None if it is invalid."""
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    try:
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, OSError):
        return None


def fields_of(more: Iterable[str]) -> dict[str, str]:
    """Parse header lines into a dictionary."""
    return {name.strip(): value.strip() for name, _, value in (m.partition(":") for m in more)}


def render(note: Note) -> str:
    """Format *note* as a file, which `parse` reads back."""
    head = {
        # It may contain file names of strangers, which must not add header lines.
        "source": one_line(note.source, MAX_SOURCE),
        "tags": f"[{', '.join(note.tags)}]",
        "ttl": note.ttl,
        "status": note.status,
        "label": _format_label(note.label),
        "created": note.created,
        "updated": note.updated,
    }
    lines = [f"{name}: {value}".rstrip() for name, value in head.items()]
    return "\n".join(["---", *note.more, *lines, "---", "", note.text]) + "\n"


def parse(key: str, content: str) -> Note:
    """Parse the file of *key*, whatever its content.

    >>> note = parse("tea", "---\\nlabel: trusted\\ntags:\\n  - hot\\n---\\nGreen.")
    >>> note.text, note.tags, note.untrusted
    ('Green.', ('hot',), False)
    >>> parse("tea", "---\\nlabel: trusted\\nGreen.").untrusted
    True
    """
    content = content.removeprefix("\ufeff").replace("\r\n", "\n")
    found = _HEAD.fullmatch(content)
    if found is None:
        return Note(key, content[:MAX_NOTE].strip())
    fields, more = _fields(found[1] or "")

    def bare(name: str, missing: str = "") -> str:
        return fields.get(name, missing).strip("'\"")

    return Note(
        key,
        (found[2] or "")[:MAX_NOTE].strip(),
        tuple(dict.fromkeys(_tags(fields.get("tags", "")))),
        one_line(fields.get("source", ""), MAX_SOURCE),
        ttl if seconds(ttl := bare("ttl")) is not None else "",
        STATUSES.get(bare("status", "active"), "pending"),
        _label(bare("label")),
        one_line(bare("created"), MAX_TIME),
        one_line(bare("updated"), MAX_TIME),
        more,
    )


_KNOWN = ("source", "tags", "ttl", "status", "label", "created", "updated")


def _fields(head: str) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Parse the known fields; return other lines unchanged."""
    fields: dict[str, str] = {}
    more: list[str] = []
    name = ""
    for line in head.split("\n"):
        field = _FIELD.fullmatch(line)
        if field is not None:
            name = field[1].lower()
        elif line.startswith("#"):
            name = ""
        if name not in _KNOWN:
            more += [line] if line.strip() else []
        elif field is None:  # a list over several lines
            fields[name] = f"{fields[name]} {line.strip()}".strip()
        else:
            # Of two lines with one name neither is reliable.
            fields[name] = "" if name in fields else field[2].strip()
    return fields, tuple(more)


def _tags(value: str) -> list[str]:
    parts = (part.strip("'\"#").removeprefix("-") for part in re.split(r"[\[\],\s]+", value))
    return [part for part in parts if re.fullmatch(TAG, part)]


def _label(value: str) -> Label:
    words = set(re.split(r"[\s,]+", value.strip()))
    return Label(
        untrusted=not (words <= {"trusted", "private", "public"} and "trusted" in words),
        private=not (words <= {"trusted", "untrusted", "public"} and "public" in words),
    )


def _format_label(label: Label) -> str:
    trust = "untrusted" if label.untrusted else "trusted"
    return trust if label.private else f"{trust}, public"
