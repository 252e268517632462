"""What is said to be planned: "I'll remind you tomorrow", "the daily check is set up".

A promise about later is a claim too, as nobody is there then but what was planned.  It is none
where it hangs on a word of the person's, and what was promised before is not looked for: a
promise needs the receipt of its own turn.
"""

import re

from elwood.agent.session.turn.claim_words import NOT, UNREAL_ME
from elwood.agent.session.turn.deeds import Needs
from elwood.agent.session.turn.sentences import THING

# What plans, or shows what is planned; a service on the web may plan as well.
STANDS: Needs = frozenset({"schedule", "planned", "request"})
_SCHEDULE: Needs = frozenset({"schedule"})
_MAKES: Needs = frozenset({"write", "run", "schedule"})
# What only planning makes.
_REMINDER = re.compile(r"\b(?:reminders?|alarms?|timers?|erinnerung(?:en)?|wecker)\b")
_UNIT = (
    r"(?:minutes?|hours?|days?|mornings?|noons?|evenings?|nights?|weeks?|weekdays?|months?|years?|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?)"
)
_AGAIN = (
    rf"(?:(?:every|each) (?:\w+ )?{_UNIT}|hourly|daily|nightly|weekly|monthly|yearly|recurring|"
    r"taglich\w*|stundlich\w*|wochentlich\w*|monatlich\w*)"
)
# What planning makes as well as other tools.
_TASK = re.compile(rf"\b(?:tasks?|jobs?|schedules?|aufgaben?|{_AGAIN})\b")
_TIME = (
    rf"(?:tomorrow|tonight|later|(?:at|by) (?:\d|noon|midnight|one|two|three|four|five|six|seven|"
    rf"eight|nine|ten|eleven|twelve)|in (?:\w+ )?{_UNIT}|next \w+|on (?:the \d|\w+day)|{_AGAIN})"
)
_WILL = (
    r"\b(?:i|we|elwood)(?:'ll| will| shall|(?:'m| am|'re| are) going to)\s+(?:(?!not\b)\w+\s+)??"
)
_YOU = r"(?:you|him|her|them|us|everyone|everybody)"
_PROMISES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_WILL}(?:remind {_YOU}|wake you)\b(?! (?:that|how|why|what|who)\b)",
        rf"{_WILL}(?:ping|nudge|alert|notify|message|tell|text|call) {_YOU}\b.*\b{_TIME}\b",
        rf"{_WILL}\w+ .*\b{_AGAIN}\b",
        rf"\b{_AGAIN}\b.*{_WILL}\w+",
        r"\byou(?:'ll| will) (?:\w+ )?(?:get|receive|have|see|hear) (?:\w+ )?(?:a|the|your|my) "
        r"(?:\w+ )?(?:reminder|alarm)\b(?! (?:from|by) (?!me\b))",
        r"\byou(?:'ll| will) be reminded\b",
        r"\b(?:reminder|alarm|timer)(?:'ll| will) (?:come|arrive|go off|ring|sound|be sent)\b",
        rf"\b(?:task|job|check|reminder)s? (?:is|are) (?:\w+ )?(?:scheduled|planned|{_AGAIN})\b",
        r"\b(?:ich|wir) erinner[en]+ (?:dich|euch|sie)\b",
        r"\berinner[en]+ (?:ich|wir) (?:dich|euch|sie)\b",
        r"\b(?:ich werde|wir werden|werde ich|werden wir)\b.*\b(?:dich|euch|sie)\b.*\berinnern\b",
        r"\b(?:du wirst|wirst du)\b.*\berinnert\b",
        r"\b(?:du bekommst|bekommst du|du erhaltst|erhaltst du)\b.*\b(?:erinnerung|wecker)\b",
        r"\b(?:erinnerung|wecker|timer) (?:ist|steht|lauft|kommt)\b",
    )
)
# What makes of a promise an offer, or of a plan one that waits for a word.
_HANGS = re.compile(
    r"\b(?:if (?:you|that|this|so|it|needed|necessary)|unless|once (?:you|i|we|that|it|this)|"
    r"as soon as|until you|when(?:ever)? you(?:'re| are)? (?:tell|say|give|let|confirm|want|like|"
    r"ready)|tell me|let me know|just say|say the word|give me|(?:i|we) need|after you|could|would|"
    r"wenn|falls|sobald|sag|sage|sagst|nenne?|gib)\b"
)


def promises(clause: str, sentence: str) -> bool:
    """Tell whether *clause* of *sentence* promises something for later; both are folded.

    >>> promises("i'll remind you tomorrow", "i'll remind you tomorrow.")
    True
    >>> promises("i'll remind you", "tell me when and i'll remind you.")
    False
    """
    if sentence.endswith("?") or NOT.search(clause) or _HANGS.search(sentence):
        return False
    found = [match for pattern in _PROMISES if (match := pattern.search(clause))]
    return any(UNREAL_ME.search(clause[: match.start()]) is None for match in found)


def planning(needs: Needs, clause: str) -> Needs:
    """Say what tools bear out that something was made, which *needs* such, if it is to be later.

    Nothing but planning makes a reminder, unless it is said to stand in a file.

    >>> sorted(planning(frozenset({"write", "run"}), "i created a reminder"))
    ['schedule']
    >>> sorted(planning(frozenset({"write", "run"}), "i created a daily report"))
    ['run', 'schedule', 'write']
    """
    if needs.isdisjoint(_MAKES):
        return needs
    if _REMINDER.search(clause) and THING not in clause.split():
        return (needs & STANDS) | _SCHEDULE
    return needs | _SCHEDULE if _TASK.search(clause) or _REMINDER.search(clause) else needs
