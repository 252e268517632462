"""The part of the shell's language that means the same to everybody: words, quotes, lists, pipes.

Whatever else the shell knows (expansion, redirection, globs, braces, groups, keywords, comments) is
not understood here on purpose, and what is not understood is asked about.
"""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

# Characters of a command: what a person can still read before saying yes to it.
MAX_COMMAND = 2_000

Join = Literal[";", "&&", "||"]
Operator = Literal[";", "&&", "||", "|", "\n"]


class Unclear(msgspec.Struct, frozen=True):
    """This is not known to be harmless: ask the owner, and say *why*."""

    why: str


class Word(msgspec.Struct, frozen=True):
    """A word as the program gets it; *bare* if it was written just so, without quotes."""

    text: str
    bare: bool = True


class Piped(msgspec.Struct, frozen=True):
    """Commands joined by ``|``; *joined* says how they hang together with what stands before."""

    joined: Join
    commands: tuple[tuple[Word, ...], ...]


# The one glob that is understood: all folders here.
FOLDERS = Word("*/")

_BLANKS = re.compile(r"[ \t]+")
_OPERATOR = re.compile(r";(?!;)|&&|\|\|(?!\|)|\|(?![|&])|\n")
_FOLDERS = re.compile(r"\*/(?=[ \t\n;|&]|\Z)")
# "~" only where no name of a person can begin: HEAD~1, not ~, a=~ or a:~.
_PLAIN = re.compile(r"(?:[A-Za-z0-9_%+,\-./:=@^!\]]|(?<=[A-Za-z0-9_^~])~)+")
_HASH = re.compile(r"#+")
_ESCAPED = re.compile(r"\\([!-~ ])")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE = re.compile(r'"((?:[^"\\$`]|\\[^\n])*)"')
_DOUBLE_ESCAPED = re.compile(r'\\(["\\$`])')
# In quotes other writing systems are fine, what steers a terminal or turns the text round is not.
_UNSHOWABLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def parse(command: str) -> tuple[Piped, ...] | Unclear:
    """Read *command* as a list of pipelines, or say what in it is not plain.

    >>> parse("ls -l 'a b'; date")  # doctest: +NORMALIZE_WHITESPACE
    (Piped(joined=';', commands=((Word(text='ls', bare=True), Word(text='-l', bare=True),
      Word(text='a b', bare=False)),)),
     Piped(joined=';', commands=((Word(text='date', bare=True),),)))
    >>> parse("ls $(date)")
    Unclear(why="it has '$' outside single quotes")
    >>> parse("ls |")
    Unclear(why='a command is missing')
    """
    read: list[Word | Operator] = []
    for token in tokens(command):
        if isinstance(token, Unclear):
            return token
        read.append(token)
    return _assembled(read)


def tokens(command: str) -> Iterator[Word | Operator | Unclear]:
    """Cut *command* into words and operators; `Unclear` comes last or not at all.

    >>> list(tokens("a|b"))
    [Word(text='a', bare=True), '|', Word(text='b', bare=True)]
    """
    if len(command) > MAX_COMMAND:
        yield Unclear(f"it is longer than {MAX_COMMAND} characters")
        return
    at = 0
    while at < len(command):
        if blanks := _BLANKS.match(command, at):
            at = blanks.end()
        elif operator := _OPERATOR.match(command, at):
            at = operator.end()
            yield _operator(operator[0])
        elif folders := _FOLDERS.match(command, at):
            at = folders.end()
            yield FOLDERS
        else:
            word = _word(command, at)
            if isinstance(word, Unclear):
                yield word
                return
            at, found = word
            yield found


def _operator(text: str) -> Operator:
    match text:
        case ";" | "&&" | "||" | "|" | "\n":
            return text
    raise AssertionError(text)


def _word(command: str, start: int) -> tuple[int, Word] | Unclear:
    """Read the word at *start*: where it ends, and what it is."""
    at, parts, bare = start, list[str](), True
    while at < len(command):
        if plain := _PLAIN.match(command, at) or (at > start and _HASH.match(command, at)):
            parts.append(plain[0])
            at = plain.end()
            continue
        if single := _SINGLE.match(command, at):
            quoted, part = single, single[1]
        elif double := _DOUBLE.match(command, at):
            quoted, part = double, _DOUBLE_ESCAPED.sub(r"\1", double[1])
        elif escaped := _ESCAPED.match(command, at):
            quoted, part = escaped, escaped[1]
        else:
            break
        if _UNSHOWABLE.search(part):
            return Unclear("it has control characters or invisible ones")
        parts.append(part)
        at, bare = quoted.end(), False
    if at < len(command) and not _BLANKS.match(command, at) and not _OPERATOR.match(command, at):
        return Unclear(_strange(command[at]))
    return at, Word("".join(parts), bare)


def _strange(char: str) -> str:
    if char in "'\"":
        return f"a quote {char} is not closed, or has an expansion in it"
    if not char.isascii():
        return "it has a character outside quotes that is not ASCII"
    if not char.isprintable():
        return "it has a control character"
    if char in "$`":
        return f"it has {char!r} outside single quotes"
    return f"it has {char!r} outside quotes"


def _assembled(read: list[Word | Operator]) -> tuple[Piped, ...] | Unclear:
    """Put commands together as the shell does: a line may end after an operator, not begin so."""
    lists: list[Piped] = []
    joined: Join = ";"
    pipeline: list[tuple[Word, ...]] = []
    words: list[Word] = []
    owed = False  # an operator that wants a command after it
    for token in [*read, "\n"]:
        if isinstance(token, Word):
            words.append(token)
            continue
        if not words:
            if token == "\n":
                continue  # an empty line, or one that goes on
            return Unclear("a command is missing")
        pipeline.append(tuple(words))
        words = []
        if token != "|":
            lists.append(Piped(joined, tuple(pipeline)))
            pipeline = []
            joined = ";" if token == "\n" else token
        owed = token in ("|", "&&", "||")
    if owed:
        return Unclear("a command is missing")
    return tuple(lists) or Unclear("there is nothing to run")
