"""A note: what is remembered across conversations, as a Markdown file that people may edit.

Reading is total: whatever stands in the file, a note comes of it, and nothing that it says is
lost.  Whatever cannot be read above a note is taken for the worst: it counts as untrusted unless
it says that it is not, and as pending if it says what we do not know.
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
# Tags of one note, and characters of where it is from.
MAX_TAGS, MAX_SOURCE = 10, 200
# Characters of a time: ISO 8601 with a zone.
MAX_TIME = 32
# Bytes of a file that are read: a note in the longest encoding, and what stands above it.
MAX_FILE = 4 * MAX_NOTE + 4096

Status = Literal["active", "pending", "archived"]
# What files call them, older ones too; what we do not know waits for the owner.
STATUSES: dict[str, Status] = {one: one for one in get_args(Status)} | {"kept": "active"}
Kind = Literal["fact", "preference", "procedure", "episode"]
KINDS: tuple[Kind, ...] = get_args(Kind)
WORST = Label(untrusted=True, private=True)
# Seconds of what a time to live is counted in; months and years are those of a calendar, roughly.
_SECONDS = {"h": 3600, "d": 86_400, "w": 7 * 86_400, "m": 30 * 86_400, "y": 365 * 86_400}
_HEAD = re.compile(r"---[ \t]*\n(.*?\n)??---[ \t]*(?:\n+(.*))?", re.DOTALL)
_FIELD = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(.*)")


class Note(msgspec.Struct, frozen=True):
    """What is remembered under *key*; *source* says from where.  Times as ISO 8601 in UTC.

    *ttl* is how long it is of use after *updated* (``30d``), for ever if empty.  *pending* ones
    wait for the owner, *archived* ones are put away: neither are found or offered.  *more* are the
    other lines above the text, its kind among them.
    """

    key: str
    text: str
    tags: tuple[str, ...] = ()
    source: str = ""
    ttl: str = ""
    status: Status = "active"
    label: Label = WORST
    created: str = ""
    updated: str = ""
    more: tuple[str, ...] = ()

    @property
    def untrusted(self) -> bool:
        """Whether it may hold strangers' words."""
        return self.label.untrusted

    @property
    def kind(self) -> Kind:
        """What kind of thing it says.

        >>> Note("tea", "Green.", more=("kind: preference",)).kind, Note("tea", "Green.").kind
        ('preference', 'fact')
        """
        said = fields_of(self.more).get("kind")
        return next((kind for kind in KINDS if kind == said), "fact")

    @property
    def is_observation(self) -> bool:
        """Whether it was noticed in a conversation (`learning.Observation`): many may be alike."""
        return "about" in fields_of(self.more)

    @property
    def words(self) -> str:
        """By what it is found."""
        return f"{self.key} {' '.join(self.tags)} {self.text}"

    @property
    def subject(self) -> str:
        """What it is about: as what it is kept, or would be.

        >>> Note("tea", "Green.").subject, Note("seen-1", "Green.", more=("about: tea",)).subject
        ('tea', 'tea')
        """
        return fields_of(self.more).get("about") or self.key


class NoteDraft(msgspec.Struct, frozen=True):
    """What is to be remembered; None leaves what a note of this key says already."""

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
    """Say why *draft* cannot be kept as it is; None if it can.

    >>> wrong(NoteDraft("tea", "Green.", Label()))
    >>> wrong(NoteDraft("Tea!", "Green.", Label()))
    'a key has 1 to 64 small letters, digits and hyphens'
    """
    tags = draft.tags or ()
    if not re.fullmatch(KEY, draft.key) or draft.key.endswith("\n"):
        return "a key has 1 to 64 small letters, digits and hyphens"
    if len(tags) > MAX_TAGS or not all(re.fullmatch(TAG, t) and t[-1] != "\n" for t in tags):
        return f"a note has at most {MAX_TAGS} tags, each a word"
    if not draft.text.strip():
        return "a note needs a text"
    if len(draft.text) > MAX_NOTE:
        return f"a note has at most {MAX_NOTE:,} characters"
    if draft.ttl and seconds(draft.ttl) is None:
        return "a time to live is a number and h, d, w, m or y: 30d"
    return None


def seconds(ttl: str) -> int | None:
    return int(ttl[:-1]) * _SECONDS[ttl[-1]] if re.fullmatch(TTL, ttl.strip()) else None


def expires(note: Note) -> float | None:
    """Say when (Unix time) *note* stops being of use; None if never, or if nobody can tell."""
    lasts = seconds(note.ttl)
    since = moment(note.updated)
    if since is None:
        since = moment(note.created)
    return since + lasts if lasts is not None and since is not None else None


def stamped(now: float) -> str:
    """Write the Unix time *now* as it stands in notes."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")


def moment(value: str) -> float | None:
    """Read a time as it stands in notes, as Unix time; None if it is none."""
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    try:
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (OverflowError, OSError):
        return None


def fields_of(more: Iterable[str]) -> dict[str, str]:
    """Read the lines that stand above a text."""
    return {name.strip(): value.strip() for name, _, value in (m.partition(":") for m in more)}


def render(note: Note) -> str:
    """Write *note* as the file that it is; `parse` gives it back."""
    head = {
        # May name what strangers call their files; it must not become a line of its own.
        "source": one_line(note.source, MAX_SOURCE),
        "tags": f"[{', '.join(note.tags)}]",
        "ttl": note.ttl,
        "status": note.status,
        "label": _said(note.label),
        "created": note.created,
        "updated": note.updated,
    }
    lines = [f"{name}: {value}".rstrip() for name, value in head.items()]
    return "\n".join(["---", *note.more, *lines, "---", "", note.text]) + "\n"


def parse(key: str, content: str) -> Note:
    """Read the file of *key*, whatever it holds.

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
    """Read the known fields; the lines of all others stay as they are."""
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
            # The last of two lines of one name does not win: neither can be relied on.
            fields[name] = "" if name in fields else field[2].strip()
    return fields, tuple(more)


def _tags(value: str) -> list[str]:
    parts = (part.strip("'\"#").removeprefix("-") for part in re.split(r"[\[\],\s]+", value))
    return [part for part in parts if re.fullmatch(TAG, part)]


def _label(value: str) -> Label:
    said = set(re.split(r"[\s,]+", value.strip()))
    return Label(
        untrusted=not (said <= {"trusted", "private", "public"} and "trusted" in said),
        private=not (said <= {"trusted", "untrusted", "public"} and "public" in said),
    )


def _said(label: Label) -> str:
    trust = "untrusted" if label.untrusted else "trusted"
    return trust if label.private else f"{trust}, public"
