"""How the offline model puts the results of tools into sentences.

It says no more than the result does.  What others wrote stands in code or in quotes: it claims
nothing of ours, and formats nothing.
"""

import re

import attrs

from elwood.agent.conversation.message import INTERRUPTED, Result
from elwood.agent.models.phrase_doing import (
    Ask,
    Fetch,
    LookUp,
    Remember,
    Request,
    Run,
    SearchWeb,
    Send,
)
from elwood.agent.models.phrase_files import (
    EditFile,
    FindFiles,
    ListFiles,
    ReadFile,
    SearchFiles,
    WriteFile,
)
from elwood.agent.models.phrase_tasks import ChangePlan, ListPlans, Plan
from elwood.agent.models.phrases import Phrase
from elwood.foundation.text.quote_markdown import (
    code,
    cut,
    fenced,
    in_quotes,
    quoted_lines,
)

# How the house begins a result of a call that did not run (`agent.gate`, `agent.seeking`).
WAITS = "waiting for approval"
REFUSED = re.compile(r"(?:denied|not allowed): (?P<why>[^\n]*)")
DRY_RUN = "dry run"
# What it says, and so do the tools, of one that may have had its effect.
UNCERTAIN = (
    INTERRUPTED,
    "it is not known whether",
    "whether the command did something is not known",
    "may or may not have arrived",
)
# A result that came after its turn had ended (`core.turns.late`).
_LATE = re.compile(
    r"The owner allowed the call that waited: (?P<call>.{1,400}?)\. "
    r"Its result(?P<failed> \(failed\))?, as data:\n(?P<text>.*)",
    re.S,
)
# Of a page that is summarised: sentences, and characters of them; of a paragraph, at least.
SENTENCES, MAX_SUMMARY, MIN_PARAGRAPH = 3, 600, 40
# Web hits that are shown, and characters of what is said about one; of a command that is named.
MAX_HITS, MAX_SNIPPET, MAX_COMMAND = 5, 200, 100


@attrs.frozen
class Hit:
    """A page that the web search found; every field is the word of strangers."""

    title: str
    url: str
    snippet: str


@attrs.frozen
class Page:
    """What `web_fetch` or `web_request` gave: *text* is the word of strangers."""

    status: str
    title: str
    text: str


def tell(phrase: Phrase, result: Result) -> str:
    """Say what came of the call for *phrase*."""
    if not result.failed:
        return _good(phrase, result.text)
    head, _, rest = result.text.partition("\n")
    if isinstance(phrase, Run) and (ended := re.fullmatch(r"exit code -?\d+", head)):
        printed = f" and printed:\n\n{fenced(rest)}" if rest.strip() else " and printed nothing."
        return f"{_command(phrase)} ended with {ended[0]}{printed}"
    return trouble(_aim(phrase), result.text)


def trouble(aim: str, why: str) -> str:
    """Say that the call to *aim* ("read a.md") did not succeed, and in whose words."""
    if why.startswith(WAITS):
        return f"I need your approval to {aim}. It waits for your answer, and is not done yet."
    if why.startswith(DRY_RUN):
        return f"This is a dry run, so I did not {aim}."
    if refused := REFUSED.match(why):
        # What follows tells a model how to behave.
        return f"I may not {aim}: {in_quotes(refused['why'].split('. Do not')[0])}"
    head, _, rest = why.partition("\n")
    more = f"\n\n{fenced(rest)}" if rest.strip() else ""
    if any(words in head for words in UNCERTAIN):
        return f"I do not know whether I could {aim}: {in_quotes(head)}{more}"
    return f"I could not {aim}: {in_quotes(head)}{more}"


def tell_late(notice: str) -> str | None:
    """Say what came of a call that had waited, if that is what *notice* tells."""
    found = _LATE.fullmatch(notice)
    if found is None:
        return None
    called, text = code(cut(" ".join(found["call"].split()), 100)), found["text"]
    if found["failed"]:
        return f"You allowed {called}, but it did not succeed:\n\n{fenced(text)}"
    return f"You allowed {called}. This came of it:\n\n{fenced(text)}"


def found_on_web(text: str) -> list[Hit]:
    """Read the hits out of a result of `web_search`.

    >>> found_on_web("Results:\\n\\n1. A\\n   https://a.example/\\n   Says a.\\n\\n(end)")
    [Hit(title='A', url='https://a.example/', snippet='Says a.')]
    """
    rule = r"^\d+\. (.*)\n   (https?://\S+)(?:\n   (.*))?$"
    return [
        Hit(*(group or "" for group in found.groups())) for found in re.finditer(rule, text, re.M)
    ]


def tell_first_hit(phrase: SearchWeb, hit: Hit, result: Result) -> str:
    """Say what the first page that was found says."""
    head = f"The web search for {in_quotes(phrase.query)} found this first:\n\n"
    head += quoted_lines(hit.title or "(no title)", hit.url)
    page = Fetch(hit.url, is_short=True)
    return f"{head}\n\n{tell(page, result)}"


def read_page(text: str) -> Page:
    """Take a result of `web_fetch` or `web_request` apart.

    >>> read_page("Page:\\nStatus: 200\\nTitle: A\\n\\nHi.\\n\\n(end of the content)")
    Page(status='200', title='A', text='Hi.')
    """
    head, _, body = text.partition("\n\n")
    status = re.search(r"^Status: (\d+)$", head, re.M)
    title = re.search(r"^Title: (.*)$", head, re.M)
    return Page(
        status[1] if status else "unknown",
        title[1] if title else "",
        body.removesuffix("(end of the content)").strip(),
    )


def summary(text: str) -> str:
    """Return the first sentences of the first paragraph of *text* that is prose.

    >>> summary("# Tea\\n\\n[Home](/)\\n\\nTea is a [drink](/d). It is hot. It is old. It is dear.")
    'Tea is a drink. It is hot. It is old.'
    """
    paragraphs = [part.strip() for part in text.split("\n\n") if part.strip()]
    prose = (part for part in paragraphs if len(part) >= MIN_PARAGRAPH and part[0].isalnum())
    chosen = next(prose, paragraphs[0] if paragraphs else "")[: 4 * MAX_SUMMARY]
    plain = " ".join(_LINK.sub(r"\1", chosen).split())
    return cut(" ".join(_SENTENCE_END.split(plain)[:SENTENCES]), MAX_SUMMARY)


_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_SENTENCE_END = re.compile(r"(?<=[.!?]) ")


def _good(phrase: Phrase, text: str) -> str:
    """Say what came of a call that went well."""
    match phrase:
        case ListFiles(path):
            place = code(path) if path else "your workspace"
            return f"This is in {place}:\n\n{fenced(text)}"
        case ReadFile():
            return _read(phrase, text)
        case WriteFile(path):
            return f"I wrote {code(path)}: {in_quotes(text)}"
        case EditFile(path):
            return f"I changed {code(path)}: {in_quotes(text)}"
        case FindFiles(name):
            if text == "nothing found":
                return f"Nothing is called {code(name)}."
            return f"This is called {code(name)}:\n\n{fenced(text)}"
        case SearchFiles(pattern):
            if text.startswith("nothing found"):
                return f"{code(pattern)} stands nowhere: {in_quotes(text)}"
            return f"{code(pattern)} stands here:\n\n{fenced(text)}"
        case Run():
            return f"{_command(phrase)} ended without an error:\n\n{fenced(text)}"
        case SearchWeb(query):
            return _hits(query, text)
        case Fetch(url, is_short):
            return _page(url, read_page(text), is_short)
        case Request(method, url):
            page = read_page(text)
            head = f"The answer of {code(url)} to the {method}, with status {page.status}:"
            return f"{head}\n\n{fenced(page.text)}"
        case Send(_, files, to):
            what = " and ".join(map(code, files)) or "the message"
            return f"I sent {what}{'' if to == 'here' else f' to {code(to)}'}."
        case Ask():
            return "I asked; your next message is the answer."
        case Remember(key):
            done = "I replaced what I had under" if text.startswith("replaced") else "I saved it as"
            marked = f" {in_quotes(text)}" if "marked" in text else ""
            return f"{done} {code(key)}.{marked}"
        case LookUp(query):
            if text.startswith("no note"):
                return f"My memory has nothing about {in_quotes(query)}."
            return f"My memory has this about {in_quotes(query)}:\n\n{fenced(text)}"
        case Plan():
            head, _, _ = text.partition("\n")
            return f"I planned it: {in_quotes(head)}"
        case ListPlans():
            if text.startswith("there are no tasks"):
                return "Nothing is planned."
            return f"This is planned:\n\n{fenced(text)}"
        case ChangePlan():
            return f"This came of it: {in_quotes(text)}"
        case _:
            return fenced(text)


def _aim(phrase: Phrase) -> str:
    """Say what was to be done, to stand behind "I could not"."""
    match phrase:
        case ListFiles(path):
            return f"look into {code(path) if path else 'your workspace'}"
        case ReadFile(path):
            return f"read {code(path)}"
        case WriteFile(path):
            return f"write {code(path)}"
        case EditFile(path):
            return f"change {code(path)}"
        case FindFiles(name):
            return f"look for {code(name)}"
        case SearchFiles(pattern):
            return f"search for {code(pattern)}"
        case Run():
            return f"run {_command(phrase)}"
        case SearchWeb(query):
            return f"search the web for {in_quotes(query)}"
        case Fetch(url):
            return f"fetch {code(url)}"
        case Request(method, url):
            return f"send the {method} to {code(url)}"
        case Send(_, files):
            return f"send {' and '.join(map(code, files)) or 'the message'}"
        case Ask(question):
            return f"ask {in_quotes(question)}"
        case Remember(key):
            return f"save {code(key)}"
        case LookUp(query):
            return f"look up {in_quotes(query)}"
        case Plan(when):
            return f"plan that for {in_quotes(when)}"
        case ListPlans():
            return "list what is planned"
        case ChangePlan(verb, task):
            return f"{verb} {in_quotes(task)}"
        case _:
            return "do that"


def _command(phrase: Run) -> str:
    return code(cut(" ".join(phrase.command.split()), MAX_COMMAND))


def _read(phrase: ReadFile, text: str) -> str:
    place = code(phrase.path)
    if not text.strip():
        return f"There is nothing in {place}."
    if phrase.first is None:
        return f"{place} says:\n\n{fenced(text)}"
    first, last = phrase.first, phrase.last
    lines = f"Line {first}" if first == last else f"Lines {first} to {last}"
    return f"{lines} of {place}:\n\n{fenced(text)}"


def _hits(query: str, text: str) -> str:
    found = found_on_web(text)
    if not found:
        return f"The web search for {in_quotes(query)} has no results."
    shown = [
        quoted_lines(f"{number}. {hit.title}", hit.url, cut(hit.snippet, MAX_SNIPPET))
        for number, hit in enumerate(found[:MAX_HITS], 1)
    ]
    return "\n\n".join([f"The web search for {in_quotes(query)} has these results:", *shown])


def _page(url: str, page: Page, is_short: bool) -> str:
    title = f" is called {in_quotes(page.title)} and" if page.title else ""
    status = "" if page.status == "200" else f" (status {page.status})"
    if is_short:
        return f"{code(url)}{status}{title} begins:\n\n{quoted_lines(summary(page.text))}"
    return f"{code(url)}{status}{title} says:\n\n{fenced(page.text)}"
