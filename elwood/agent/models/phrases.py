"""Which phrases the offline model understands, and what each of them asks for.

A phrase is one line of a person's words.  These are rules, not understanding: what no rule fits
is `Unknown`.
"""

import re
from collections.abc import Collection
from typing import Literal

import attrs

from elwood.agent.models.phrase_doing import Doing, about_doing
from elwood.agent.models.phrase_files import AboutFiles, about_files
from elwood.agent.models.phrase_tasks import AboutTasks, about_tasks
from elwood.agent.models.phrase_words import bare, kept

# Longer lines are prose, not one of the phrases; it also bounds the work of the patterns.
MAX_PHRASE = 500


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


Phrase = AboutFiles | AboutTasks | Doing | Echo | Recall | Talk | Unknown

# Lines of examples, each with the tool that it takes, if it takes one.
EXAMPLES: tuple[tuple[tuple[str, str], ...], ...] = (
    (
        ("list_files", "list the files"),
        ("read_file", "read SOUL.md"),
        ("read_file", "show me lines 1-5 of SOUL.md"),
    ),
    (("find", "find *.md"), ("grep", "search for owner")),
    (
        ("write_file", "write notes.txt: buy milk"),
        ("edit_file", "replace milk with tea in notes.txt"),
    ),
    (("run_command", "run ls -l"), ("run_command", "run the tests")),
    (
        ("web_fetch", "fetch https://example.org"),
        ("web_search", "search the web for tea and summarise the first hit"),
    ),
    (("send_message", "send me notes.txt"), ("ask_user", "ask me whether tea or coffee")),
    (
        ("save_memory", "remember that my sister's birthday is 4 May"),
        ("search_memory", "what do you know about my sister"),
    ),
    (
        ("schedule", "remind me in 1 minute to call mum"),
        ("schedule", "every 2 days list the files"),
    ),
    (("list_tasks", "list my tasks"), ("cancel_task", "cancel task call-mum")),
    (("", "what time is it"), ("", "what did I say before"), ("", "echo some words")),
)


def examples(tools: Collection[str]) -> str:
    """List what can be said when there are these *tools*, as Markdown.

    >>> print(examples(["read_file"]))
    - `read SOUL.md` · `show me lines 1-5 of SOUL.md`
    - `what time is it` · `what did I say before` · `echo some words`
    """
    lines = (
        " · ".join(f"`{text}`" for tool, text in line if not tool or tool in tools)
        for line in EXAMPLES
    )
    return "\n".join(f"- {line}" for line in lines if line)


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
    words, text = bare(line), kept(line)
    talk = _talk(words) or _recall(words)
    if talk is not None:
        return talk
    done = about_tasks(words, text) or about_doing(words, text) or about_files(words, text)
    return done or Unknown(line)


_ECHO = re.compile(r"(?:please )?(?:echo|say|repeat after me):? +(?P<text>\S.*)", re.I | re.S)
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


def _talk(words: str) -> Talk | None:
    for about, rule in _TALK_RULES:
        if rule.fullmatch(words):
            return Talk(about)
    return None


def _recall(words: str) -> Recall | None:
    if _FIRST.fullmatch(words):
        return Recall("first")
    return Recall("last") if _LAST.fullmatch(words) else None
