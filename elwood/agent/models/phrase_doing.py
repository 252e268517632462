"""Phrases that reach further than files: commands, the web, people, and the memory."""

import hashlib
import re
import unicodedata
from typing import Literal

import attrs

from elwood.agent.models.phrase_words import (
    URL,
    compiled,
    first,
    path,
    path_in,
    unquoted,
    url_in,
)


@attrs.frozen
class Run:
    """Run *command*; the empty one stands for words that are no command."""

    command: str


@attrs.frozen
class RunTests:
    """Run the tests, if it can be told how."""


@attrs.frozen
class SearchWeb:
    """Search the web, and with *reads* say what the first page says."""

    query: str
    reads: bool = False


@attrs.frozen
class Fetch:
    """Show the page *url*, or with *is_short* its title and first sentences."""

    url: str
    is_short: bool = False


@attrs.frozen
class Request:
    """Send *body* to *url*."""

    method: Literal["POST", "PUT", "PATCH", "DELETE"]
    url: str
    body: str = ""


@attrs.frozen
class Send:
    """Send *text* and *files* to somebody: "here", "owner", or a person, "tg:123"."""

    text: str = ""
    files: tuple[str, ...] = ()
    to: str = "here"


@attrs.frozen
class Ask:
    """Ask *question*, with answers to choose from."""

    question: str
    options: tuple[str, ...] = ()


@attrs.frozen
class Remember:
    """Remember *text* under the name *key*."""

    key: str
    text: str


@attrs.frozen
class LookUp:
    """Say what was remembered that has the words of *query*."""

    query: str


Doing = Run | RunTests | SearchWeb | Fetch | Request | Send | Ask | Remember | LookUp

# Of an answer that can be chosen, in characters, and of how many: what `ask_user` takes.
MAX_OPTION, MAX_OPTIONS = 40, 6
# Of the name of a note, in characters: what `save_memory` takes; and of the hash at its end.
MAX_KEY, HASH = 64, 6

_RUN_RULES = compiled(
    r"(?:run|execute):? +(?:the (?:shell )?command:? +)?(?P<command>\S.*)",
    r"\$ +(?P<command>\S.*)",
    r"(?P<command>)(?:run|execute)(?: (?:it|that|this|something|a command|the command))?[.!?]*",
)
# No command begins like this.
_PROSE = re.compile(
    r"(?:an?|the|my|our|your|some|all|it|this|that|these|those|away|again|out|every\w*)\b", re.I
)
_TESTS = compiled(
    r"(?:run|execute|start) (?:all )?(?:(?:of )?(?:the|my|our|your|its) )?(?:unit )?tests"
    r"(?: again)?",
    r"(?:run|execute|start) (?:the|my|our|your|its) (?:unit )?test(?: ?suite)?(?: again)?",
    r"test (?:it|this|everything)",
)
_WEB = r"(?:the )?(?:web|internet|net)"
_READS = (
    r"(?P<reads>,? (?:and |then )+(?:please )?(?:summari[sz]e|read|open|fetch|show|tell me)"
    r"(?: me)?(?: about)? (?:the )?(?:first|top|best)(?: (?:hit|result|page|one|link))?)?[.!?]*"
)
_WEB_RULES = compiled(
    rf"(?:search {_WEB}|web ?search|search online|google|look (?:on|in) {_WEB})"
    rf"(?: for| about)?:? (?P<query>.+?){_READS}",
    rf"(?:search(?: for)?|look up|look for|find) (?P<query>.+?) (?:(?:on|in) {_WEB}|online)"
    rf"{_READS}",
)
_FETCH_RULES = compiled(
    r"(?P<short>(?:summari[sz]e|sum up|what is (?:on|at|in)|(?:tell me )?what(?: does)?"
    r"|tell me about) )"
    rf"(?:the )?(?:(?:page|site|website) (?:at )?)?{URL}(?: says?)?[.!?]*",
    r"(?:(?:fetch|read|open|get|show|load|look at|see|visit|print|cat) (?:me )?"
    rf"(?:the )?(?:(?:page|site|website|url|address|link)(?: at)? )?)?{URL}(?P<short>)",
)
_REQUEST_RULES = compiled(
    rf"(?P<method>post|put|patch|send) (?P<body>\S.*?) to {URL}",
    rf"(?P<method>post|put|patch) (?:to )?{URL}:? +(?P<body>\S.*)",
    rf"(?P<method>delete|post) {URL}(?P<body>)",
)
_TO = r"(?P<to>me|us|(?:the |my )?owner|tg:\d{1,19})"
_FILE, _SECOND = path(is_file=True), path("s", is_file=True)
_SEND_FILE_RULES = compiled(
    rf"(?:send|forward) {_TO} (?:the )?(?:files? )?{_FILE}(?: and {_SECOND})?",
    rf"(?:send|forward|attach|upload) (?:the )?(?:files? )?{_FILE}(?: and {_SECOND})?"
    rf"(?: to {_TO}| here| over)?",
)
_SEND_RULES = compiled(
    rf"(?:send|write) {_TO} (?:a |this )?(?:message|note|line)(?: saying|:) *(?P<text>\S.*)",
    rf"(?:message|tell|send|write to) {_TO}(?::| that:?) *(?P<text>\S.*)",
    rf"send (?:a |this )?(?:message|note) to {_TO}(?: saying|:) *(?P<text>\S.*)",
)
_ASK_RULES = compiled(
    r"ask (?:me|us|the user) (?P<whether>whether|if) (?P<question>\S.*?)[.?! ]*",
    r"ask (?:me|us|the user)(?::| to choose(?: between)?:?) *(?P<question>\S.*?)(?P<whether>)[. ]*",
)
_OR = re.compile(r",? or (?:else )?|, ", re.I)
_REMEMBER_RULES = compiled(
    r"(?:remember|memori[sz]e|keep in mind|(?:don't|do not) forget)(?: that|:)? +(?P<text>\S.*)",
    r"(?:note|make a note)(?: that|:) *(?P<text>\S.*)",
)
_MEMORY = r"(?:(?:(?:your|the|my) )?(?:memory|memories)|your notes)"
_LOOK_UP_RULES = compiled(
    r"what (?:do|did) you (?:know|remember|recall|learn|save) (?:about|of|on) (?P<query>.+)",
    r"what did i tell you (?:about|of) (?P<query>.+)",
    r"do you (?:remember|recall|know (?:anything|something) about) (?P<query>.+)",
    rf"(?:search|look (?:in|through)) {_MEMORY} for (?P<query>.+)",
    rf"(?:look up|search(?: for)?) (?P<query>.+) in {_MEMORY}",
    rf"what is in {_MEMORY} about (?P<query>.+)",
    r"recall (?P<query>.+)",
)


def about_doing(words: str, text: str) -> Doing | None:
    """Find what is to be done; *text* is the line whole, *words* without its frills.

    >>> about_doing("run ls -l .", "run ls -l .")
    Run(command='ls -l .')
    >>> about_doing("", "search the web for structured concurrency and read the first hit")
    SearchWeb(query='structured concurrency', reads=True)
    """
    return _command(words, text) or _memory(words, text) or _web(text) or _people(words, text)


def _command(words: str, text: str) -> Run | RunTests | None:
    if first(_TESTS, words):
        return RunTests()
    if (found := first(_RUN_RULES, text)) is None:
        return None
    command = unquoted(found["command"])
    is_quoted = command != found["command"].strip()
    return Run(command if is_quoted or not _PROSE.match(command) else "")


def _memory(words: str, text: str) -> Remember | LookUp | None:
    if found := first(_LOOK_UP_RULES, words):
        return LookUp(unquoted(found["query"]))
    if found := first(_REMEMBER_RULES, text.replace("\u2019", "'")):
        return Remember(key(found["text"]), found["text"].strip())
    return None


def _web(text: str) -> SearchWeb | Fetch | Request | None:
    if found := first(_REQUEST_RULES, text):
        body = unquoted(found["body"])
        match found["method"].lower():
            case "put":
                return Request("PUT", url_in(found), body)
            case "patch":
                return Request("PATCH", url_in(found), body)
            case "delete":
                return Request("DELETE", url_in(found))
            case _:
                return Request("POST", url_in(found), body)
    if found := first(_FETCH_RULES, text):
        return Fetch(url_in(found), bool(found["short"]))
    if found := first(_WEB_RULES, text):
        return SearchWeb(unquoted(found["query"]), found["reads"] is not None)
    return None


def _people(words: str, text: str) -> Send | Ask | None:
    if found := first(_SEND_FILE_RULES, words):
        files = tuple(file for file in (path_in(found), path_in(found, "s")) if file)
        return Send("", files, _to(found))
    if found := first(_SEND_RULES, text):
        return Send(unquoted(found["text"]), (), _to(found))
    if found := first(_ASK_RULES, text):
        return _question(found["question"], bool(found["whether"]))
    return None


def _to(found: re.Match[str]) -> str:
    to = (found["to"] or "me").lower()
    return "here" if to in ("me", "us") else "owner" if to.endswith("owner") else to


def _question(words: str, is_whether: bool) -> Ask:
    """Make a question with answers of *words*, which follow "whether" or name the answers.

    >>> _question("I want tea or coffee", True)
    Ask(question='I want tea or coffee?', options=('I want tea', 'coffee'))
    """
    words = words.rstrip("?") or words
    question = f"{words[0].upper()}{words[1:]}?"
    parts = [unquoted(part) for part in _OR.split(words)] if " or " in words.lower() else []
    options = tuple(dict.fromkeys(part for part in parts if part))
    fits = all(len(option) <= MAX_OPTION for option in options)
    if 1 < len(options) <= MAX_OPTIONS and fits:
        return Ask(question, options)
    return Ask(question, ("yes", "no") if is_whether and not options else ())


def key(text: str) -> str:
    """Make the name of a note out of its words; what they lose, a hash stands for.

    >>> key("my sister's birthday is 4 May."), key("я")
    ('my-sisters-birthday-is-4-may', 'note-9b21f5')
    """
    said = re.sub(r"['\u2019]", "", text.lower())
    letters = unicodedata.normalize("NFKD", said)  # "é" becomes "e" and its accent
    found = "-".join(re.findall(r"[a-z0-9]+", re.sub(r"[\u0300-\u036f]", "", letters)))
    is_whole = all(char.isascii() or unicodedata.combining(char) for char in letters)
    if is_whole and 0 < len(found) <= MAX_KEY:
        return found
    seal = hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:HASH]
    return f"{found[: MAX_KEY - HASH - 1].strip('-') or 'note'}-{seal}"
