"""Phrases about the files of the workspace: see, read, write, change and search them."""

import re

import attrs

from elwood.agent.models.phrase_words import (
    IN_QUOTES,
    compiled,
    first,
    path,
    path_in,
    unquoted,
)


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
class WriteFile:
    """Put *text* into the file *path*, as all that is in it."""

    path: str
    text: str


@attrs.frozen
class EditFile:
    """Replace *old* by *new* in the file *path*."""

    path: str
    old: str
    new: str


@attrs.frozen
class FindFiles:
    """Show the files called *name*, with ``*`` for anything, in the folder *path* and below."""

    name: str
    path: str = ""


@attrs.frozen
class SearchFiles:
    """Show the lines of files that *pattern*, a regular expression, is found in."""

    pattern: str
    path: str = ""


AboutFiles = ListFiles | ReadFile | WriteFile | EditFile | FindFiles | SearchFiles

_PATH, _FILE = path(), path(is_file=True)
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

# A rule with a path group names a place.
_LIST_RULES = compiled(
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
_READ_RULES = compiled(
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
# Here all of the text matters, so it is not shortened first.
_A_FILE = rf"(?:(?:a|the|my) )?(?:new )?(?:file )?(?:called |named )?{_FILE}"
_WRITE_RULES = compiled(
    rf"(?:write|create|make|save) {_A_FILE}"
    r"(?:: *| +(?:with|saying|containing)(?: the)?(?: text| content| words)?:? +)(?P<text>\S.*)",
    rf"(?:write|save|put|store) (?P<text>.+) (?:to|into|in) {_A_FILE}[.!]*",
)
_OLD, _NEW = rf"(?P<old>{IN_QUOTES}|.+?)", rf"(?P<new>{IN_QUOTES}|.+?)"
_CHANGE = rf"(?:replace {_OLD} (?:with|by)|change (?P<was>{IN_QUOTES}|.+?) (?:to|into)) {_NEW}"
_EDIT_RULES = compiled(
    rf"{_CHANGE} in (?:the )?(?:file )?{_FILE}[.!]*",
    rf"in (?:the )?(?:file )?{_FILE},? {_CHANGE}",
)
_WHERE = rf"(?: (?:in|inside|under|below|from) (?:(?:the )?(?:folder|directory|file) )?{path('w')})"
_EVERYWHERE = (
    r"(?: (?:in|inside|within) (?:all )?(?:of )?(?:the |my |our |your )?(?:files|workspace))"
)
_FIND_RULES = compiled(
    rf"(?:find|locate) (?:all )?(?:the |my |any )?(?:files? |folders? )?"
    rf"(?:named |called |like |matching )?{_PATH}(?: files?)?(?:{_EVERYWHERE}|{_WHERE})?",
    rf"where is (?:the |my )?(?:file )?{_FILE}",
)
_TAIL = rf"(?:{_EVERYWHERE}|{_WHERE})?[.?!]*"
_SEARCH_RULES = compiled(
    rf"(?:search|look)(?: (?:through|in))?(?: (?:the |my |our |all )*(?:files|workspace))? for "
    rf"(?P<words>{IN_QUOTES}|.+?){_TAIL}",
    rf"(?:find|show me) (?:all )?(?:the )?files (?:containing|with|that (?:contain|mention|have)) "
    rf"(?P<words>{IN_QUOTES}|.+?){_TAIL}",
    rf"(?:what|which) files (?:contain|mention|have) (?P<words>{IN_QUOTES}|.+?){_TAIL}",
    rf"grep (?:for )?(?P<pattern>{IN_QUOTES}|(?!-)\S+)(?:(?:{_EVERYWHERE}|{_WHERE})| {_PATH})?",
)
# Signs that mean something in a regular expression.
_SIGNS = re.compile(r"([.^$*+?{}\[\]\\|()])")
_GLOB = re.compile(r"[*?\[.]")


def about_files(words: str, text: str) -> AboutFiles | None:
    """Find what is to be done with files; *text* is the line whole, *words* without its frills.

    >>> about_files("read a.md", "read a.md.")
    ReadFile(path='a.md', first=None, last=None)
    >>> about_files("", "write a.md: Buy milk!")
    WriteFile(path='a.md', text='Buy milk!')
    """
    return _changing(text) or _searching(words, text) or _looking(words)


def _changing(text: str) -> WriteFile | EditFile | None:
    if found := first(_WRITE_RULES, text):
        return WriteFile(path_in(found), unquoted(found["text"]))
    if found := first(_EDIT_RULES, text):
        old = found["old"] or found["was"]
        return EditFile(path_in(found), unquoted(old), unquoted(found["new"]))
    return None


def _searching(words: str, text: str) -> SearchFiles | FindFiles | None:
    if found := first(_SEARCH_RULES, text):
        groups = found.groupdict()
        place = path_in(found, "w") or path_in(found)
        if groups.get("pattern"):
            return SearchFiles(unquoted(groups["pattern"]), place)
        return SearchFiles(_SIGNS.sub(r"\\\1", unquoted(groups["words"])), place)
    if found := first(_FIND_RULES, words):
        folder, _, name = path_in(found).rpartition("/")
        if not name:
            return None
        place = "/".join(part for part in (path_in(found, "w"), folder) if part)
        return FindFiles(name if _GLOB.search(name) else f"*{name}*", place)
    return None


def _looking(words: str) -> ListFiles | ReadFile | None:
    if found := first(_LIST_RULES, words):
        return ListFiles(path_in(found))
    if found := first(_READ_RULES, words):
        place = path_in(found)
        return ListFiles(place) if place.endswith("/") else ReadFile(place, *_lines(found))
    return None


def _lines(found: re.Match[str]) -> tuple[int | None, int | None]:
    groups = found.groupdict()
    if groups.get("top"):
        return 1, int(groups["top"])
    if not groups.get("first"):
        return None, None
    start = int(groups["first"])
    return start, int(groups.get("last") or start)
