"""What a sentence claims that its writer did: the grammar behind `core.claims`."""

import re
from collections.abc import Iterator

from elwood.agent.session.turn.claim_later import STANDS, planning, promises
from elwood.agent.session.turn.claim_states import STATES
from elwood.agent.session.turn.claim_words import (
    ACK,
    ADVERBS,
    DATED,
    ELSEWHERE,
    GIVEN,
    HERE,
    IDIOM,
    ME,
    NOT,
    NOT_OURS,
    NOTHING,
    NOUN,
    NOUN_DE,
    OURS,
    OUTSIDE,
    PERSISTS,
    QUESTION,
    SUBJECT,
    TEXTUAL,
    TOLD,
    UNREAL,
    UNREAL_ME,
)
from elwood.agent.session.turn.deeds import (
    ANY,
    DEEDS,
    Deed,
    Needs,
)
from elwood.agent.session.turn.sentences import Sentence, clauses


def _forms(form: str) -> str:
    return "|".join(f"(?P<d{number}>{getattr(deed, form)})" for number, deed in enumerate(DEEDS))


# Words of which each pattern of a deed has one at least: most clauses have none, and need no more.
DOING = frozenset(
    [
        *("able", "managed", "liberty", "succeeded", "successful"),
        *("complete", "completed", "done", "finished"),
    ]
).union(*(deed.words for deed in DEEDS))
_WORD = re.compile(r"\w+")

_DONE, _BASE, _ING, _GERMAN = (_forms(form) for form in ("done", "base", "ing", "german"))
_I_DID = (
    re.compile(rf"{ME}{ADVERBS}(?:{_DONE})\b"),
    re.compile(
        rf"{ME}{ADVERBS}(?:(?:(?:was|were)\s+)?(?:able|managed) to|took the liberty to)\s+"
        rf"{ADVERBS}(?:{_BASE})\b"
    ),
    re.compile(
        rf"{ME}{ADVERBS}(?:finished|completed|succeeded in|(?:took|taken) the liberty of)\s+"
        rf"(?:with\s+)?{ADVERBS}(?:{_ING})\b"
    ),
)
_FINISHED = re.compile(rf"{ADVERBS}(?:finished|completed|done)\s+(?:with\s+)?{ADVERBS}(?:{_ING})\b")
# "Sent the mail": what may follow, or it is "Saved games are ...", "Written in 1843 ...".
_ELLIPTIC = re.compile(
    rf"{ADVERBS}(?!read\b|set\b|shut\b)(?:{_DONE})(?P<rest>$|\s+(?:the|your|a|an|it|this|that|them|"
    r"these|those|all|both|everything|two|three|\d+|thing|to|for|into|under|as|you|him|her|my|our|"
    r"new|another|again|now|too|already|in thing|on (?:the|your)|\w+ly)\b.*|"
    r"(?:(?<=started)|(?<=rebooted)|(?<=deployed)|(?<=installed)|(?<=migrated))\s+\w+$)"
)
_GOES_ON = re.compile(rf"{ADVERBS}(?!read\b|set\b|shut\b)(?:{_DONE})\b")
# "Mail sent to Anna"
_HEADLINE = re.compile(
    rf"(?!the\b|an?\b)(?:(?:your|new|all|both|\d+)\s+)*(?:[\w'-]+\s+){{0,2}}?{NOUN}\s+{ADVERBS}"
    rf"(?:{_DONE}|(?P<any>complete|completed|done|finished|successful|succeeded))"
    r"(?=$|\s+(?:to|for|in|at|as|with|and|on|under|into|\w+ly)\b)"
)
_FINITE = re.compile(r"\b(?:is|are|was|were|will|has|have|had|can|may|must|should|do|does|gets?)\b")
_PASSIVE = re.compile(
    rf"\b(?P<subject>{SUBJECT})(?:"
    rf"(?P<perfect>(?:'s|'ve| has| have|'d| had)\s+{ADVERBS}been)"
    r"|(?P<past>\s+(?:was|were|got))"
    r"|(?P<now>(?:'s|'re| is| are)\s+(?:now|already|just|all|successfully|officially|finally))"
    rf"|(?P<present>(?:'s|'re| is| are)))\s+{ADVERBS}(?:{_DONE})\b"
)
_YOURS = re.compile(r"(?:your|it|that|all|everything|both)\b")

_G_MAIN = re.compile(
    rf"(?:\b(?:ich|wir)\s+(?:habe?|haben)(?:'s)?\b|\b(?:habe?|haben)\s+(?:ich|wir)\b|"
    rf"^(?:habe?)\b).*?"
    rf"\b(?:{_GERMAN})\b"
)
_G_LAST = re.compile(rf"\bich\b.*?\b(?:{_GERMAN})\s+habe?\b")
_G_PASSIVE = re.compile(
    rf"\b(?:(?:{NOUN_DE}|es|das|alles|sie)\b.*?\b(?:(?P<be>ist|sind)|wurden?)"
    rf"|(?:ist|sind|wurden?)\b.*?\b{NOUN_DE})\b.*?\b(?:{_GERMAN})\b"
)
_G_ELLIPTIC = re.compile(
    rf"(?:(?:{NOUN_DE}|erfolgreich|schon|jetzt|soeben|gerade|alles|ist|und|auch)\s+)*(?:{_GERMAN})"
    r"(?=$|\s+(?:an|in|auf|unter|fur|nach|zu)\b)"
)
_G_GOES_ON = re.compile(rf"(?:\S+\s+){{0,8}}(?:{_GERMAN})$")

_I_SPEAK = re.compile(
    r"(?:[\w']+\s+){0,3}?(?:i|we|i've|we've|ich|wir)\b(?!.*\b(?:you|he|she|they|who|du|er|sie)\b)"
)


def claims(sentence: Sentence, *, shows: bool = False, looked: bool = False) -> list[Needs]:
    """List what kinds of tools each claim of *sentence* needs.

    *shows* says that the text around it may hold what was made (`shows_work`).  *looked* says
    that tools looked something up: what they found may tell of others' deeds.

    >>> from elwood.agent.session.turn.sentences import sentences
    >>> [sorted(needs) for s in sentences("I sent it.") for needs in claims(s)]
    [['request', 'send']]
    >>> [claims(s) for s in sentences("Shall I send it? Anna sent it. I will save it.")]
    [[], [], []]
    """
    words = sentence.words
    asks = words.endswith("?")
    if words.startswith("not from the records)") or (asks and QUESTION.match(words)):
        return []
    found: list[Needs] = []
    heading = sentence.intro
    mine = not (sentence.item and heading) or (
        OURS.search(heading) is not None and NOT_OURS.search(heading) is None
    )
    fresh_allowed, parts = mine, clauses(words)
    for number, clause in enumerate(parts):
        fresh = clause.fresh and fresh_allowed
        if asks and number == len(parts) - 1 and not re.match(rf"(?:\w+\s+)?{ME}", clause.words):
            break
        new = list(_in_clause(clause.words, sentence, shows, looked, fresh, mine))
        found += new
        mine = (
            bool(new) or _speaks(clause.words) or (mine and ACK.fullmatch(clause.words) is not None)
        )
        if clause.then == ":" and number == 0 and not mine and not _leads(clause.words):
            fresh_allowed = False  # "Anna: sent the contract"
    return found


def _in_clause(
    clause: str, sentence: Sentence, shows: bool, looked: bool, fresh: bool, mine: bool
) -> Iterator[Needs]:
    if promises(clause, sentence.words):
        yield STANDS
    acts = not DOING.isdisjoint(_WORD.findall(clause))
    for pattern in (*_I_DID, _G_MAIN, _G_LAST) if acts else ():
        for found in pattern.finditer(clause):
            start = found.start()
            if UNREAL_ME.search(f"{clause[:start]}{found[0].split()[0]}") or NOTHING.match(
                clause, found.end()
            ):
                continue
            if pattern in (_G_MAIN, _G_LAST) and NOT.search(clause):
                continue
            yield from _deed(found, clause, sentence, shows)
    states = [(said, needs) for pattern, needs in STATES if (said := pattern.search(clause))]
    if not (acts or states):
        return
    if NOT.search(clause) or UNREAL.search(clause) or ELSEWHERE.search(sentence.words):
        return
    if DATED.match(sentence.words):
        return
    if acts:
        yield from _told(clause, sentence, shows, looked, fresh, mine)
    for said, needs in states:
        if needs != ANY or fresh or mine or said.start() > 0:
            yield planning(needs, clause)


def _told(
    clause: str, sentence: Sentence, shows: bool, looked: bool, fresh: bool, mine: bool
) -> Iterator[Needs]:
    """Yield what is needed for what *clause* says to be done without "I"."""
    elliptic = [_ELLIPTIC, _FINISHED, _G_ELLIPTIC] if fresh or mine else []
    if fresh:
        elliptic.append(_HEADLINE)
    if mine and not fresh:
        elliptic += [_GOES_ON, _G_GOES_ON]
    for pattern in elliptic:
        found_ = pattern.match(clause)
        if found_ is None:
            continue
        if pattern is _HEADLINE and _FINITE.search(clause, found_.end()):
            continue
        yield from _deed(found_, clause, sentence, shows)
    for found in _PASSIVE.finditer(clause):
        yield from _passive(found, clause, sentence, shows, looked)
    for found in _G_PASSIVE.finditer(clause):
        if found["be"] is None or len(clause.split()) <= 10:
            yield from _deed(found, clause, sentence, shows)


def _passive(
    found: re.Match[str], clause: str, sentence: Sentence, shows: bool, looked: bool
) -> Iterator[Needs]:
    deed = _of(found)
    if deed.sort == "look" and not re.search(rf"\b{NOUN}\b", found["subject"]):
        return
    if found["past"] and looked and TOLD.search(found["subject"]):
        return
    if found["present"]:  # or it is how things are in general
        ends = re.fullmatch(r"(?:\s+(?:now|again|\w+ly))?", clause[found.end() :]) is not None
        yours = deed.sort == "" and _YOURS.match(found["subject"]) and len(clause.split()) <= 10
        if not (ends or yours) or UNREAL.search(sentence.words):
            return
    yield from _deed(found, clause, sentence, shows)


def _deed(found: re.Match[str], clause: str, sentence: Sentence, shows: bool) -> Iterator[Needs]:
    """Yield what the verb that was *found* needs, if it is about the world outside."""
    if found.lastgroup is None or found.groupdict().get("any"):
        yield ANY
        return
    name = next(name for name, value in found.groupdict().items() if value and name[1:].isdigit())
    deed = DEEDS[int(name[1:])]
    verb, rest = found.start(name), clause[found.end(name) :].strip()
    if IDIOM.match(clause, verb):
        return
    if deed.sort == "look":
        bare = not rest and re.match(
            "check|verif|confirm|valid|double|inspect|nachg", clause[verb:]
        )
        around = f"{clause[:verb]} {rest}"
        if GIVEN.search(clause) or not (bare or OUTSIDE.search(around)):
            return
    if deed.sort == "text" and PERSISTS.search(rest) is None:
        here = sentence.words.endswith(":") or HERE.search(sentence.words)
        if here or (shows and TEXTUAL.search(f"{clause[:verb]} {rest}")):
            return
    yield deed.needs if deed.sort == "look" else planning(deed.needs, clause)


def _of(found: re.Match[str]) -> Deed:
    groups = found.groupdict().items()
    name = next(name for name, value in groups if value is not None and name[1:].isdigit())
    return DEEDS[int(name[1:])]


def _speaks(clause: str) -> bool:
    """Tell whether the writer is the subject of *clause*, so that verbs behind it are theirs."""
    return _I_SPEAK.match(clause) is not None and UNREAL.search(clause) is None


def _leads(clause: str) -> bool:
    """Tell whether what stands before a colon may lead to what the writer did."""
    return bool(ACK.fullmatch(clause) or OURS.search(clause) or re.search(rf"\b{NOUN}\b", clause))


def shows_work(text: str) -> bool:
    """Tell whether *text* holds something that may have been written in it: code, quotes, lists."""
    return "```" in text or len([line for line in text.splitlines() if line.strip()]) >= 3
