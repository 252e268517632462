"""Which phrases the offline model understands, and what each of them asks for.

A phrase is one line of a person's words.  These are rules, not understanding: what no rule fits
is `Unknown`.
"""

import re
from typing import Literal

import attrs

# Longer lines are prose, not one of the phrases below; it also bounds the work of the patterns.
MAX_PHRASE = 300


@attrs.frozen
class ListFiles:
    """Show what is in the folder *path* of the workspace; the empty path is its top."""

    path: str = ""


@attrs.frozen
class ReadFile:
    """Show the file *path*, or its lines *first* to *last* (counted from 1, both inclusive)."""

    path: str
    first: int | None = None
    last: int | None = None


@attrs.frozen
class Echo:
    """Say *text* back."""

    text: str


@attrs.frozen
class Recall:
    """Say what the person said in the message *which*."""

    which: Literal["first", "last"]


@attrs.frozen
class Talk:
    """Say one of the fixed sentences."""

    about: Literal["hello", "who", "help", "time", "thanks", "bye"]


@attrs.frozen
class Unknown:
    """No rule fits *text*."""

    text: str


Phrase = ListFiles | ReadFile | Echo | Recall | Talk | Unknown

EXAMPLES = (
    "list the files",
    "what files are in notes",
    "read SOUL.md",
    "show me lines 1-5 of SOUL.md",
    "what time is it",
    "what did I say before",
    "echo some words",
)


def understand(line: str) -> Phrase:
    """Find what *line* asks for.

    >>> understand("Which files are in my workspace?")
    ListFiles(path='')
    >>> understand("could you show me lines 2 to 4 of notes/today.md, please?")
    ReadFile(path='notes/today.md', first=2, last=4)
    >>> understand("sing")
    Unknown(text='sing')
    """
    if len(line) > MAX_PHRASE:
        return Unknown(line)
    said = _ECHO.fullmatch(line.strip())
    if said is not None:
        return Echo(said["text"])
    words = _bare(line)
    return _talk(words) or _recall(words) or _files(words) or Unknown(line)


_ECHO = re.compile(r"(?:please )?(?:echo|say|repeat after me):? +(?P<text>\S.*)", re.I | re.S)
_POLITE_START = re.compile(
    r"^(?:hey|hi|hello|ok|okay|so|now|and|then|elwood|please|"
    r"(?:can|could|would|will) you|i (?:want|would like|need) (?:you )?to|let me|let us|let's)"
    r"[ ,:;]+(?=\S)",
    re.I,
)
_POLITE_END = re.compile(r"[ ,]+(?:please|for me|thanks|thank you|now|elwood)$", re.I)
# Closing marks, but not the dots of a path that stands alone: "list the files in .".
_CLOSING = re.compile(r"(?<=[^\s./])(?! \.+$)[\s.,;:?!]+$")
_SHORT_IS = re.compile(r"^(what|who)(?:'s|s) ", re.I)

_TALK: tuple[tuple[Literal["hello", "who", "help", "time", "thanks", "bye"], str], ...] = (
    (
        "hello",
        r"elwood|hello|hi|hey|hiya|hallo|moin|good (?:morning|day|evening|afternoon)(?: to you)?",
    ),
    ("who", r"who are you|what are you|what is your name|your name|are you (?:an ai|a bot|there)"),
    (
        "help",
        r"help|help me|\?|what can (?:you|i) (?:do|say|ask)|what do you (?:do|understand|know)"
        r"|how do(?:es)? (?:this|it|you) work|what now",
    ),
    (
        "time",
        r"(?:tell me |do you know )?(?:what(?: is)? the (?:time|date|day)"
        r"|what (?:time|day|date) (?:is it|do we have|it is)(?: today)?|the time|the date|time|date"
        r"|how late is it)(?: is it)?(?: today)?",
    ),
    ("thanks", r"thanks|thank you|thanks a lot|thank you very much|many thanks|thx|cheers"),
    ("bye", r"bye|goodbye|good bye|good night|see you(?: later)?|farewell"),
)
_TALK_RULES = tuple((about, re.compile(rule, re.I)) for about, rule in _TALK)

_FIRST = re.compile(
    r"(?:repeat|what was|what is|tell me|show me|say)(?: again)? "
    r"(?:my|the) first (?:message|words?|sentence|question|thing i said)"
    r"|what did i (?:say|ask|write|tell you) (?:first|at (?:the|first) ?(?:start|beginning)?)"
    r"|(?:my|the) first (?:message|question)",
    re.I,
)
_LAST = re.compile(
    r"what did i (?:just )?(?:say|ask|write|tell you)(?: before| last| just now| earlier)?"
    r"|(?:repeat|what was|what is|tell me|show me|say)(?: again)? "
    r"(?:my|the) (?:last|previous) (?:message|words?|sentence|question|thing i said)"
    r"|(?:my|the) (?:last|previous) (?:message|question)"
    r"|repeat (?:that|what i said)(?: before)?",
    re.I,
)

# A path: quoted it may hold blanks, bare it may not.
_PATH = (
    r"(?:`(?P<p1>[^`]+)`|\"(?P<p2>[^\"]+)\"|'(?P<p3>[^']+)'"
    r"|(?P<p4>(?!(?:me|it|that|this|us)(?: |$))[^\s`\"',;:?!]+))"
)
_RANGE = (
    r"(?:the )?(?:lines? (?P<first>\d{1,9})(?: ?(?:-|\u2013|to|until|and) ?(?P<last>\d{1,9}))?"
    r"|first (?P<top>\d{1,9}) lines?)"
)
_FILES = (
    r"(?:(?:all )?(?:of )?(?:the |my |your |our )?(?:files|documents|folder contents|contents))"
)
_TOP = (
    r"(?:there|here|it|around|(?:in )?(?:my|the|your|our|this) "
    r"(?:workspace|work space|(?:top )?(?:folder|directory)))"
)
_IN = r"(?:in|inside|inside of|within|under|of|from)"
_DIR = r"(?:the )?(?:folder|directory|dir)"
_SEE = r"(?:list|show|show me|give me|tell me|display|see|name)"
_READ = r"(?:read|open|print|cat|show|show me|display|read me|give me|view|type|look at|see)"
_WHAT = r"(?:what is|what stands|what do you (?:see|have)|what have you got)"

# In order: the first that fits wins.  A rule with a path group names a place.
_LIST_RULES = tuple(
    re.compile(rule, re.I)
    for rule in (
        rf"(?:{_SEE} )?{_FILES}(?: (?:{_IN} )?{_TOP})?",
        rf"(?:{_SEE} )?{_FILES} {_IN} (?:{_DIR} |the )?{_PATH}(?: (?:folder|directory))?",
        rf"{_SEE} (?:{_IN} )?{_TOP}",
        rf"{_SEE} {_DIR} {_PATH}",
        rf"(?:open|{_SEE}) (?:the )?{_PATH} (?:folder|directory)",
        r"(?:list|ls|dir)",
        rf"(?:list|ls|dir) {_PATH}",
        rf"(?:what|which) (?:files|documents)(?: (?:are|exist|do (?:i|you|we) have))?"
        rf"(?: there)?(?: (?:{_IN} )?{_TOP})?",
        rf"(?:what|which) (?:files|documents) (?:are|exist|do (?:i|you|we) have) (?:there )?"
        rf"{_IN} (?:{_DIR} |the )?{_PATH}(?: (?:folder|directory))?",
        rf"are there (?:any )?files(?: (?:{_IN} )?{_TOP})?",
        rf"are there (?:any )?files {_IN} (?:{_DIR} )?{_PATH}",
        rf"{_WHAT} (?:{_IN} )?{_TOP}",
        rf"{_WHAT} {_IN} {_DIR} {_PATH}",
        rf"{_WHAT} {_IN} (?:the )?{_PATH} (?:folder|directory)",
        rf"{_IN} (?:{_DIR} )?{_PATH},? (?:{_SEE} {_FILES}|what files are there)",
        rf"{_PATH}: {_SEE} {_FILES}",
    )
)
_READ_RULES = tuple(
    re.compile(rule, re.I)
    for rule in (
        rf"(?:{_READ} )?{_RANGE} (?:{_IN} )?(?:the )?(?:file )?{_PATH}",
        rf"{_READ} (?:the )?(?:file )?{_PATH}(?:,? (?:from )?{_RANGE})?",
        rf"(?:{_READ} )?(?:me )?(?:the )?(?:contents?|text) {_IN} (?:the )?(?:file )?{_PATH}",
        rf"what does (?:the )?(?:file )?{_PATH} (?:say|contain|hold)",
        rf"what (?:says|contains) (?:the )?(?:file )?{_PATH}",
        rf"{_WHAT}(?: written)? {_IN} (?:the )?(?:file )?{_PATH}",
        rf"(?:the )?file {_PATH},? {_READ}(?: it)?",
        rf"{_PATH}[:,] {_READ}(?: it)?(?: (?:from )?{_RANGE})?",
        rf"from (?:the )?(?:file )?{_PATH},? {_READ} {_RANGE}",
    )
)


def _bare(line: str) -> str:
    """Take off white space, politeness and closing marks, which carry no meaning here."""
    words = re.sub(r"\s+", " ", line.replace("\u2019", "'")).strip()
    before = None
    while words != before and len(words) > 1:
        before = words
        words = _POLITE_START.sub("", _POLITE_END.sub("", _CLOSING.sub("", words)))
    return _SHORT_IS.sub(r"\1 is ", words)


def _talk(words: str) -> Talk | None:
    for about, rule in _TALK_RULES:
        if rule.fullmatch(words):
            return Talk(about)
    return None


def _recall(words: str) -> Recall | None:
    if _FIRST.fullmatch(words):
        return Recall("first")
    return Recall("last") if _LAST.fullmatch(words) else None


def _files(words: str) -> ListFiles | ReadFile | None:
    for rule in _LIST_RULES:
        if found := rule.fullmatch(words):
            return ListFiles(_path(found))
    for rule in _READ_RULES:
        if found := rule.fullmatch(words):
            path = _path(found)
            if path.endswith("/"):
                return ListFiles(path)
            return ReadFile(path, *_lines(found))
    return None


def _path(found: re.Match[str]) -> str:
    groups = found.groupdict()
    return next((groups[name] for name in ("p1", "p2", "p3", "p4") if groups.get(name)), "")


def _lines(found: re.Match[str]) -> tuple[int | None, int | None]:
    groups = found.groupdict()
    if groups.get("top"):
        return 1, int(groups["top"])
    if not groups.get("first"):
        return None, None
    first = int(groups["first"])
    return first, int(groups.get("last") or first)
