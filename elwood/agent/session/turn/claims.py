"""Finds what the model says it has done, and marks what no receipt bears out (reliability.md, P4).

Rules, not understanding; for English and German.  A claim is a completed action of the writer's:
"I sent", "has been saved", "Mail sent", "Done"; or a promise for later, "I'll remind you".  It
needs a call of this turn that went well, of a tool that does such things, about the file or address
that is named.  What is asked, offered, denied, quoted, or told of others claims nothing.  What is
said to have been done before may rest on the receipts of earlier turns.
"""

import re
from collections.abc import Iterator, Sequence

from elwood.agent.session.log.entries import CallEnded
from elwood.agent.session.turn.claim_later import STANDS
from elwood.agent.session.turn.claiming import claims, shows_work
from elwood.agent.session.turn.deeds import LOOKING, Needs, kinds
from elwood.agent.session.turn.sentences import Sentence, sentences

MARK = "(could not verify: nothing in the records shows it)"

_BEFORE = re.compile(
    r"\b(?:yesterday|earlier|already|before|previously|last (?:week|night|time|month|monday|"
    r"tuesday|wednesday|thursday|friday|saturday|sunday)|this morning|a (?:moment|while) ago|"
    r"(?:minutes?|hours?|days?) ago|gestern|vorhin|bereits|schon|vorher|zuvor|heute morgen|"
    r"letzte[nrs]?|fruher)\b"
)
# What a file is called: names like "e.g" and "Node.js" are none.
_FILE = re.compile(
    r"[\w.-]*\w\.(?:md|txt|pdf|csv|tsv|json|jsonl|ya?ml|toml|ini|conf|cfg|log|html?|xml|sql|db|"
    r"py|sh|rs|go|c|h|cpp|java|ts|css|ics|eml|docx?|xlsx?|pptx?|odt|ods|png|jpe?g|gif|svg|webp|"
    r"mp3|mp4|wav|zip|tar|gz|tgz|bak|nix|env|tex|rst)\b",
    re.I,
)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


def unverified(
    text: str,
    receipts: Sequence[CallEnded],
    earlier: Sequence[CallEnded] = (),
    *,
    planned: bool = False,
) -> tuple[str, ...]:
    """List the sentences of *text* that claim what neither *receipts* nor *earlier* ones show.

    *receipts* are those of this turn; that it is the run of something *planned* shows that more
    will come.

    >>> unverified("I have sent the mail. Shall I save it?", [])
    ('I have sent the mail.',)
    >>> done = CallEnded("t1", "c1", "write_file", "ok", "", "a.md")
    >>> unverified("I saved it to a.md. I also saved b.md.", [done])
    ('I also saved b.md.',)
    """
    found = _unverified(text, receipts, earlier, planned)
    return tuple(sentence.raw.strip() for sentence in found)


def mark(
    text: str,
    receipts: Sequence[CallEnded],
    earlier: Sequence[CallEnded] = (),
    *,
    planned: bool = False,
) -> str:
    """Say behind each claim in *text* that nothing shows it, if nothing does (see `unverified`).

    >>> mark("The mail is on its way!", [])
    'The mail is on its way! (could not verify: nothing in the records shows it)'
    """
    parts, at = [], 0
    for sentence in _unverified(text, receipts, earlier, planned):
        end = sentence.start + len(sentence.raw.rstrip())
        parts += [text[at:end], " ", MARK]
        at = end
    return "".join([*parts, text[at:]])


def _unverified(
    text: str, receipts: Sequence[CallEnded], earlier: Sequence[CallEnded], planned: bool
) -> Iterator[Sentence]:
    good = [receipt for receipt in receipts if receipt.outcome == "ok"]
    old = [receipt for receipt in earlier if receipt.outcome == "ok"]
    looked = any(kinds(one.tool, one.target) & LOOKING for one in good)
    shows = shows_work(text)
    for sentence in sentences(text):
        found = claims(sentence, shows=shows, looked=looked)
        found = [needs for needs in found if not (planned and needs == STANDS)]
        if not found:
            continue
        usable = [*good, *old] if _BEFORE.search(sentence.words) else good
        names = _names(sentence.raw)
        shown = all(any(_shows(one, needs, names) for one in usable) for needs in found)
        if not shown or not all(any(_fits(one, name) for one in usable) for name in names):
            yield sentence


def _shows(receipt: CallEnded, needs: Needs, names: Sequence[str]) -> bool:
    """Tell whether *receipt* bears out a claim that *needs* such tools and names *names*."""
    if needs.isdisjoint(kinds(receipt.tool, receipt.target)):
        return False
    return not names or any(_fits(receipt, name) for name in names)


def _fits(receipt: CallEnded, name: str) -> bool:
    """Tell whether *receipt* may be about *name*: it has it, or nothing of the sort."""
    target = receipt.target.casefold()
    if name in target or name in receipt.text.casefold():
        return True
    return (_MAIL if "@" in name else _FILE).search(target) is None


def _names(raw: str) -> list[str]:
    """List the files and addresses that a sentence names."""
    mails = [found[0].casefold() for found in _MAIL.finditer(raw)]
    rest = _MAIL.sub(" ", raw)
    return mails + [found[0].casefold() for found in _FILE.finditer(rest)]
