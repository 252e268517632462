"""What is said to be so that somebody must have brought about: "the mail is on its way", "done"."""

import re

from elwood.agent.session.turn.claim_words import NOUN, NOUN_DE
from elwood.agent.session.turn.deeds import ANY, Needs

# Things said to be so that somebody must have brought about, and what it takes.
_REACH: Needs = frozenset({"send", "request"})
_CHANGE: Needs = frozenset({"write", "run", "request", "memory", "schedule"})
_SAID: tuple[tuple[str, Needs], ...] = (
    (
        r"^(?:(?:so|ok|okay|yes|and|there|now|great|that's|it's|it is|that is|this is|"
        r"everything is|everything's|all|consider it|task|job|mission|i am|i'm|we're|x|your "
        r"request is|alles|ist|das ist|es ist|schon|ja|hab ich|habe ich|ich bin|ich hab's|"
        r"ich habe? es)\s+)*"
        r"(?:done|all done|completed?|finished|accomplished|taken care of|sorted|all set|"
        r"good to go|handled|done and dusted|erledigt|fertig|gemacht|abgeschlossen|geschafft)"
        r"(?: for you| now| as requested| as you asked| successfully)?$",
        ANY,
    ),
    (
        rf"\b(?:e-?mails?|mails?|messages?|invitations?|invites?|letter|reply|parcel|{NOUN_DE})\s+"
        r"(?:(?:is|are|ist|sind)\s+)?(?:\w+\s+)?(?:on (?:its|the|their) way|out|gone out|raus|"
        r"unterwegs|went out|in (?:her|his|their|anna's|\w+'s) inbox)\b",
        _REACH,
    ),
    (
        rf"\b(?:{NOUN}|version|it|everything)(?:'s| is| are)\s+(?:now|all|already|up)\s+(?:and\s+)?"
        r"(?:live|online|up|running|in place|deployed|back|ready|available|in (?:your|the))\b",
        _CHANGE,
    ),
    (
        r"\b(?:it|that|this|all|everything)(?:'s| is| has|"
        r" have)(?: \w+)?(?: been)? (?:taken care of|"
        r"handled|sorted(?: out)?|dealt with)$",
        ANY,
    ),
    (
        rf"\b{NOUN} (?:is|are|has been|have been) (?:\w+ )?(?:complete|completed|done|finished|"
        r"confirmed|taken care of|in place|ready)(?: now| for you)?$",
        ANY,
    ),
    (
        rf"\b(?:i|we)(?:'ve| have)? put .*\b(?:in|on|into|onto) (?:your|the) (?:\w+ )?{NOUN}\b",
        _CHANGE,
    ),
    (
        rf"\b{NOUN}(?: has| have)? (?:completed|finished|succeeded|executed|ran|went through|"
        r"worked|started|restarted)(?: again)?(?:$| (?:\w+ly|without|fine|cleanly|and|with no)\b)",
        _CHANGE | _REACH,
    ),
    (rf"\b(?:{NOUN}|version) (?:is|are) (?:live|up|back up|online again)\b", _CHANGE),
    (
        r"\b(?:tests?|build|checks|suite|specs|everything)(?: \w+)? (?:pass(?:es|ed)?|"
        r"succeed(?:s|ed)|"
        r"(?:is|are|was|were|came back|ran) (?:all )?(?:green|passing|clean|successful))\b",
        frozenset({"run"}),
    ),
    (r"\b(?:i|we)(?:'ve| have)? (?:told|let) (?!you\b|me\b|us\b|the (?:model|user))\w+", _REACH),
    (r"\b(?:i|we)(?:'ve| have)? (?:reached out|replied|responded|written) to (?!you\b)\w+", _REACH),
    (
        r"\b(?:i|we)(?:'ve| have)?(?: \w+ly| just| also)? (?:made|placed|taken|took|put|set|turned|"
        r"switched|got|started|stopped|completed|performed|carried out|processed|applied|closed|"
        r"submitted|activated|arranged|finished|confirmed|handled) (?:on |off |up |you |through )?"
        r"(?:(?:the|your|a|an|all|of|those|that|these|it|requested|new|two|\d+)\s+)*"
        r"(?:\w+ )?(?:reminders?|alarms?|timers?|appointments?|bookings?|reservations?|orders?|"
        r"payments?|backups?|notes?|changes|calls?|server|service|container|job|deployment|"
        r"migration|installation|updates?|calendar|lights?|heating|transfer|purchase|care|event)\b",
        _CHANGE | _REACH,
    ),
    (r"\b(?:i|we)(?:'ve| have)? (?:done|did) (?:it|that|this|so|what you|everything|all)\b", ANY),
    (r"\b(?:reminder|alarm|timer|appointment|event)s? (?:is |are )?(?:now )?set\b",
     frozenset({"schedule", "request", "planned"})),
    (r"\bin (?:your|the) calendar now\b", _CHANGE),
    (r"\bmy (?:web |online |internet )?(?:search|research) (?:results?|shows?|showed|found|says|"
     r"said|revealed|turned)\b",
     frozenset({"web", "files", "recall", "run", "request"})),
)  # fmt: skip
STATES = tuple((re.compile(pattern), needs) for pattern, needs in _SAID)
