"""The words by which `core.claiming` tells a claim, folded as `core.imitation.fold` does.

They are lists, and lists have gaps; what they decide and why stands beside each.
"""

import re

from elwood.agent.session.turn.sentences import THING

ADVERBS = (
    r"(?:(?:now|just|also|already|then|both|even|indeed|actually|finally|gone ahead|went ahead|"
    r"gone|went|been|since|all|each|fully|well|duly|hereby|\w+ly)\s+)*"
)
ME = r"\b(?:i|we|elwood)(?:'ve| have| has|'d| did| do)?\s+"
# Words before the subject that make of a clause no statement.
_SUPPOSED = (
    r"\b(?:if|when|whenever|whether|unless|in case|imagine|suppose|pretend|wish|think|thought|did|"
    r"does|do|should|would|could|might|not|never|nor|neither|don't|doesn't|didn't|as though|as if|"
    r"whatever|wenn|falls|sobald|ob|solange|hatte|konnte|sollte|als ob)\b"
    r"|\b(?:have|had|did|was|am|habe|hab|wurde) (?:i|we|ich|wir)\b"
)
_AT_A_TIME = "(?:once|until|till|before|after|as soon as|bevor|nachdem)"
# What makes of a clause no statement; of one of the writer's, where it stands before "I".
UNREAL = re.compile(rf"{_SUPPOSED}|\b{_AT_A_TIME}\b")
UNREAL_ME = re.compile(rf"{_SUPPOSED}|\b{_AT_A_TIME} (?:i|we|ich|wir)\b")
NOT = re.compile(
    r"\b(?:not|never|nothing|none|nobody|no one|neither|nor|no|cannot|\w+n't|failed to|"
    r"unable|hardly|nicht|nichts|kein\w*|nie|niemals|niemand|weder|yet to|to be)\b"
)
NOTHING = re.compile(r"\s+(?:\w+\s+)?(?:nothing|none|no one|nobody|neither|no)\b")
QUESTION = re.compile(
    r"(?:\W*(?:and|so|but|or|also|und|oder|okay|ok|oh|well)\W+)*(?:have|has|had|did|do|does|is|are|"
    r"was|were|am|shall|should|would|will|can|could|may|might|must|what|which|who|whom|whose|where|"
    r"when|why|how|want|need|any|anything|habe|hab|hast|hat|haben|ist|sind|war|soll|sollen|wurde|"
    r"wurden|kann|konnen|mochtest|willst|was|welche\w*|wer|wo|wann|warum|wie|darf|brauchst|noch)\b"
)
# Told of others, of other times, or of how things are in general.
ELSEWHERE = re.compile(
    r"\bby (?!me\b|myself\b|now\b|then\b|using\b|running\b|elwood\b|\w+ing\b)\w+"
    r"|\b(?:in|since|until|around|before|after|seit|bis|von|im jahr) (?:1[5-9]|20)\d\d\b"
    r"|\b(?:always|usually|often|normally|typically|automatically|whenever|generally|"
    r"immer|meist|meistens|normalerweise|automatisch|jede[nrsm]?)\b"
    r"|\b(?:says|said|states|stated|shows|mentions|mentioned|according to|reports|reported|claims|"
    r"notes that|reads|laut|sagt|steht|zufolge)\b"
    r"|\b(?:as far as i know|probably|perhaps|maybe|vermutlich|vielleicht|wahrscheinlich)\b"
    r"|\bwurden? .*\b(?:1[5-9]|20)\d\d\b"
    r"|\bvon (?!mir\b|selbst\b|der\b|dem\b|den\b|thing\b)\w+"
)
# Numbers and dates behind a colon or a participle: columns of a list, no claim.
DATED = re.compile(
    r"^[\w ]{0,30}:? ?(?:on )?(?:\d{4}-\d\d|\d{1,2}[./]\s?\d|\d{1,2} (?:jan|feb|mar|apr|may|jun|"
    r"jul|aug|sep|oct|nov|dec)|(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\d+ \w+ ago)"
)
# Things that an assistant acts on.
NOUN = (
    r"(?:e-?mails?|mails?|messages?|texts?|posts?|notes?|files?|folders?|director(?:y|ies)|"
    r"documents?|"
    r"reports?|reminders?|alarms?|timers?|appointments?|meetings?|events?|calls?|invitations?|"
    r"invites?|"
    r"bookings?|reservations?|tables?|flights?|tickets?|orders?|payments?|transfers?|invoices?|"
    r"bills?|"
    r"subscriptions?|tests?|builds?|scripts?|commands?|services?|servers?|backups?|changes?|"
    r"fix(?:es)?|"
    r"updates?|deploy(?:ment)?s?|migrations?|installation|packages?|containers?|jobs?|tasks?|"
    r"branch(?:es)?|"
    r"commits?|pull requests?|issues?|entr(?:y|ies)|records?|rows?|lists?|calendar|database|"
    r"config(?:uration)?|"
    r"settings?|uploads?|downloads?|attachments?|photos?|pictures?|images?|data|repo(?:sitory)?|"
    r"page|website|site|app|application|search(?:es)?|request|code|bugs?|memory|draft|summary|copy|"
    rf"lights?|heating|door|hotel|rooms?|taxi|cab|ride|rent|money|{THING})"
)
SUBJECT = (
    rf"(?:(?:it|this|that|everything|all|they|both|these|those|all of (?:it|them)|"
    r"all done|your [\w'-]+)|"
    rf"(?:(?:the|your|our|my|a|an|all|both|this|that|these|those|new|two|three|\d+)\s+)*"
    rf"(?:[\w'-]+\s+){{0,3}}?{NOUN}(?:\s+(?:to|for|about|from|in|on|of|with|at|called|named)"
    rf"(?:\s+[\w'-]+){{1,4}}?)?)"
)
_DETERMINED = r"(?:(?:the|your|my|our|a|an|all|both|this|that|these|new|two|three|\d+)\s)*"
# Where something lasts beyond the answer: what was made, or where it was put.
PERSISTS = re.compile(
    rf"(?:^|\b(?:to|in|into|on|onto|under|as|at|inside|from|zu|zur|zum|im)\s){_DETERMINED}"
    rf"(?:(?!of\b|from\b|about\b|for\b|to\b|in\b)[\w'-]+\s)?"
    rf"(?:{THING}|files?|folders?|director(?:y|ies)|disk|drive|workspace|calendar|database|server|"
    r"repo(?:sitory)?|memory|notebook|config(?:uration)?|wiki|issues?|tickets?|branch|website|"
    r"spreadsheet|system|account|reminders?|appointments?|events?|backups?|reservations?|bookings?|"
    r"e-?mails?|contacts?|service|crontab|cron|(?:shopping|to-?do|task|grocery|packing) list|"
    r"datei(?:en)?|ordner|kalender|termin|erinnerung|einkaufsliste)\b"
)
TEXTUAL = re.compile(
    r"\b(?:draft|poem|story|summary|text|sentences?|paragraphs?|wording|version|tables?|list|"
    r"outline|"
    r"examples?|answer|reply|explanation|plan|letter|recipe|functions?|code|snippet|regex|query|"
    r"script|"
    r"title|tone|words?|phras(?:e|ing)s?|jokes?|haiku|verses?|translation|headings?|"
    r"suggestions?|typos?|"
    r"grammar|spelling|lines?|sections?|bullets?|points?|comments?|class|loop|it|this|that|them|"
    r"limerick|"
    r"song|essay|speech|quiz|agenda|itinerary|schedule|comma|rhymes?|one|"
    r"entwurf|gedicht|satz|absatz|liste|tabelle|beispiel|geschichte|zusammenfassung|brief)\b"
)
HERE = re.compile(
    r"\b(?:above|below|here(?:'s| is| are)?|as follows|following|oben|unten|hier|folgende\w*|"
    r"in (?:this|our|my) (?:\w+ )?(?:chat|conversation|message|reply|answer|response|example))\b"
)
OUTSIDE = re.compile(
    rf"\b(?:{THING}|files?|folders?|director(?:y|ies)|documents?|logs?|pages?|websites?|sites?|web|"
    r"internet|online|calendar|inbox|mailbox|e-?mails?|mails?|weather|forecast|news|prices?|status|"
    r"server|services?|disk|repo(?:sitory)?|code ?base|database|docs|documentation|system|"
    r"timetable|"
    r"schedule|account|balance|url|links?|results?|articles?|reports?|availability|stock|traffic|"
    r"flights?|trains?|booking|reservation|appointments?|order|notes|workspace|memory|tests|"
    r"dateien?|ordner|seiten?|webseite|kalender|postfach|wetter|notizen|dokumente?|protokolle?|"
    r"netz|"
    r"kontostand|fahrplan|preise?|termine?)\b"
)
# What the person gave, or thinking: looked at without a tool.
GIVEN = re.compile(
    r"\b(?:you (?:\w+ )?(?:sent|pasted|wrote|gave|shared|described|quoted|posted|provided|"
    r"attached)|"
    r"your (?:message|question|text|draft|request|code|reasoning|calculation|answer|list|"
    r"email above)|"
    r"my (?:answer|reply|reasoning|arithmetic|calculation|math|work)|arithmetic|maths?|calculation|"
    r"reasoning|deine\w* (?:frage|nachricht|text|entwurf))\b"
)
IDIOM = re.compile(
    r"\b(?:ran (?:out|into|the (?:numbers|calculation|figures|math)|through|late|over)|"
    r"made (?:a|an|the|my|some|this|that|it)? ?(?:mistake|error|assumption|typo|point|joke|"
    r"sense|sure|"
    r"clear|list|table|guess|slip|up|suggestion)|shared (?:my|some) (?:view|thoughts?|opinion)s?|"
    r"ordered (?:\w+ ){0,3}(?:by|alphabetically|from)|moved (?:on|by)|found (?:it|that|this) \w+|"
    r"sent (?:you )?(?:that|this|it)? ?(?:above|in my)|posted above|wrote (?:that )?(?:above|"
    r"earlier)|"
    r"paused (?:for|to|here|at)|added up|see (?:why|that|what|how)|changed my mind|set out|"
    r"built (?:on|upon)|"
    r"made of|made in|recorded in history)\b"
)
# A line that leads to a list of what the writer did, not of what others did.
OURS = re.compile(
    r"\b(?:i|we|done|summary|status|result|results|actions?|steps|progress|changes|what happened|"
    r"here(?:'s| is) what|completed|finished|all set|everything|so far|today|update|updates|recap|"
    r"erledigt|fertig|zusammenfassung|ergebnis|ergebnisse|anderungen|ich|wir|schritte)\b"
)
NOT_OURS = re.compile(r"\b(?:you|your team|he|she|they|plan|next steps|will|can|could|du|sie|er)\b")
# Said before what counts.
ACK = re.compile(
    r"(?:(?:ok|okay|yes|yep|sure|right|great|good|perfect|excellent|news|thing|certainly|of course|"
    r"absolutely|done|all done|all set|alright|no problem|will do|on it|got it|understood|hi|hello|"
    r"hey|as requested|as you asked|as you wished|as promised|sorry|thanks|update|status|result|"
    r"summary|x|voila|there you go|finally|first|second|next|then|and|ja|klar|gern|gerne|gut|"
    r"erledigt|fertig|alles klar|naturlich|super|wie gewunscht|so|now|success|"
    r"mission accomplished|your wish is my command)\W*)+"
)
NOUN_DE = (
    r"(?:e-?mails?|mails?|nachricht(?:en)?|datei(?:en)?|notiz(?:en)?|erinnerung(?:en)?|termine?|"
    r"wecker|"
    r"timer|backups?|sicherung|buchung|reservierung|tisch|flug|bestellung|zahlung|rechnung|"
    r"uberweisung|tests?|skript|befehl|dienst|server|anderung(?:en)?|updates?|deployment|"
    r"eintrag|liste|"
    r"kalender|konfiguration|ordner|dokument|bericht|antwort|einladung|paket|app|anwendung|"
    rf"hotel|ticket|{THING})"
)
# Nouns of which a text read aloud may tell what happened to them.
TOLD = re.compile(
    r"\b(?:meetings?|appointments?|events?|calls?|flights?|tables?|lists?|settings?|page|"
    r"website|site|"
    r"app|application|data|database|doors?|rooms?|hotel|rent|lights?|heating|code|bugs?|issues?|"
    r"packages?|releases?|orders?|invoices?|tickets?)\b"
)
