"""What an assistant may claim to have done, in English and German, and which tools do such things.

Each *deed* is a group of verbs with the kinds of tools of which one must have succeeded.  Words are
as `core.imitation.fold` makes them: lower case, without accents.
"""

import re
from collections.abc import Iterable
from typing import Literal

import attrs

Kind = Literal[
    "files", "write", "run", "web", "request", "send", "memory", "recall", "schedule", "planned"
]

Needs = frozenset[Kind]

# What our own tools do.  One that is not here, of an MCP server say, may do anything.
TOOLS: dict[str, Needs] = {
    "list_files": frozenset({"files"}),
    "read_file": frozenset({"files"}),
    "grep": frozenset({"files"}),
    "find_files": frozenset({"files"}),
    "search_files": frozenset({"files"}),
    "write_file": frozenset({"write"}),
    "edit_file": frozenset({"write"}),
    "run_command": frozenset({"run"}),
    "web_fetch": frozenset({"web"}),
    "web_search": frozenset({"web"}),
    "web_request": frozenset({"request"}),
    "send_message": frozenset({"send"}),
    "ask_user": frozenset(),
    "save_memory": frozenset({"memory"}),
    "search_memory": frozenset({"recall"}),
    "schedule": frozenset({"schedule"}),
    "list_tasks": frozenset({"planned"}),
    "pause_task": frozenset({"schedule"}),
    "resume_task": frozenset({"schedule"}),
    "cancel_task": frozenset({"schedule"}),
    "create_tool": frozenset({"write"}),
}
ANY: Needs = frozenset(
    {"files", "write", "run", "web", "request", "send", "memory", "recall", "schedule", "planned"}
)
LOOKING: Needs = frozenset({"files", "web", "recall", "run", "request"})
# What tools can have done whose name begins with one of these words, whoever brings them.
_LOOKED: Needs = frozenset({"files", "web", "recall"})
_LOOKS = re.compile(r"(?:read|list|get|search|find|grep|glob|show|view|query|fetch)(?![a-z])", re.I)
# Commands that reach other people, or the clock.
_REACHES = re.compile(r"mail|sendmail|msmtp|mutt|curl|wget|http|ssh|scp|push|notify|deploy", re.I)
_LATER = re.compile(r"\b(?:at|batch|crontab|systemd-run|remind)\b", re.I)


def kinds(tool: str, target: str = "") -> Needs:
    """Say what a call of *tool* can have done; *target* is its command, if it runs one.

    >>> sorted(kinds("read_file")), sorted(kinds("run_command", "curl -d @x example.org"))
    (['files'], ['request', 'run'])
    >>> kinds("calendar_create_event") == ANY, kinds("get_mail") == ANY
    (True, False)
    """
    known = TOOLS.get(tool)
    if known is None:
        return _LOOKED if _LOOKS.match(tool) else ANY
    if tool == "run_command":
        more: set[Kind] = {"run"}
        if _REACHES.search(target):
            more.add("request")
        if _LATER.search(target):
            more.add("schedule")
        return frozenset(more)
    return known


@attrs.frozen
class Deed:
    """*done* are the forms that say it is done, *base* and *ing* follow "managed to", "finished".

    *sort*: what is made may stand in the answer itself (``text``); what is looked at may too
    (``look``: only claims about things outside of it count).  *words* are those with which what is
    done begins: without one of them nothing is.
    """

    needs: Needs
    done: str
    base: str
    ing: str
    german: str
    words: frozenset[str]
    sort: Literal["", "text", "look"] = ""


def _deed(needs: str, verbs: str, german: str, sort: Literal["", "text", "look"] = "") -> Deed:
    """Make a deed from verbs with their irregular forms: ``send/sent book write/wrote/written``."""
    done: list[str] = []
    base: list[str] = []
    ing: list[str] = []
    for verb in verbs.split():
        first, *past = verb.replace("+", " ").split("/")
        head, _, tail = first.partition(" ")
        rest = f" {tail}" if tail else ""
        base.append(first)
        ing.append(f"{_ing(head)}{rest}")
        done += [f"{form.split(' ')[0]}{rest}" for form in past] or [f"{_ed(head)}{rest}"]
    wanted = frozenset(kind for kind in ANY if kind in needs.split())
    said = [word.replace("+", " ") for word in german.split()]
    forms = [*done, *said]
    forms += [form.replace("email", "e-mail") for form in forms]
    words = frozenset(re.split(r"\W", form)[0] for form in forms)
    return Deed(wanted, _any(done), _any(base), _any(ing), _any(said), words, sort)


def _any(forms: Iterable[str]) -> str:
    # "e-mailed" is written in three ways; "looked up" is "looked it up" as well.
    longest = sorted(set(forms), key=len, reverse=True)
    between = r"(?: (?:it|this|that|them|all|everything|(?:the|your) \w+))? "
    return "|".join(form.replace("email", "e-?mail").replace(" ", between) for form in longest)


# One vowel between consonants at the end of a short verb, and longer verbs that end in one.
_DOUBLES = re.compile(r"[^aeiou]*[^aeiou][aeiou][^aeiouwxy]|(?:com|sub)mit|transfer|unzip|unplug")


def _ed(verb: str) -> str:
    if _DOUBLES.fullmatch(verb):
        return f"{verb}{verb[-1]}ed"
    if verb.endswith("e"):
        return f"{verb}d"
    if verb.endswith("y") and verb[-2] not in "aeou":
        return f"{verb[:-1]}ied"
    return f"{verb}ed"


def _ing(verb: str) -> str:
    if _DOUBLES.fullmatch(verb):
        return f"{verb}{verb[-1]}ing"
    return f"{verb[:-1]}ing" if verb.endswith("e") and verb != "see" else f"{verb}ing"


DEEDS = (
    _deed(
        "send request",
        "send/sent email mail post message text forward notify deliver submit publish share ping "
        "dispatch contact inform alert dm/dmed/dm'd invite tweet fax phone",
        "gesendet versendet abgesendet geschickt verschickt abgeschickt gemailt gepostet "
        "veroffentlicht weitergeleitet benachrichtigt informiert zugestellt ubermittelt "
        "rausgeschickt eingereicht hinausgeschickt kontaktiert eingeladen bescheid+gesagt "
        "bescheid+gegeben mitgeteilt",
    ),
    _deed(
        "write memory run request",
        "save store write+to/wrote+to/written+to record archive back+up/backed+up bookmark log "
        "write+down/wrote+down/written+down note+down jot+down persist",
        "gespeichert abgespeichert gesichert abgelegt hinterlegt archiviert protokolliert",
    ),
    _deed(
        "write memory run request",
        "write/wrote/written create make/made add append edit update change modify replace fix "
        "correct generate refactor patch rewrite/rewrote/rewritten insert adjust amend resolve "
        "prepare build/built remove clean+up/cleaned+up set+up/set+up configure repair draft",
        "geschrieben erstellt angelegt hinzugefugt erganzt aktualisiert geandert "
        "angepasst ersetzt behoben korrigiert repariert erzeugt generiert eingefugt eingerichtet "
        "konfiguriert entfernt eingetragen vermerkt aufgeschrieben gefixt",
        "text",
    ),
    _deed(
        "write run request",
        "delete erase wipe purge trash empty/emptied uninstall unsubscribe unlink "
        "move rename copy duplicate sync import export zip unzip merge overwrite/overwrote",
        "geloscht verschoben umbenannt kopiert deinstalliert uberschrieben geleert "
        "synchronisiert importiert exportiert vernichtet entsorgt zusammengefuhrt",
        "text",
    ),
    _deed(
        "run request",
        "run/ran execute install deploy restart reboot launch test compile commit push clone "
        "migrate upgrade release re-run/re-ran rerun/reran roll+back/rolled+back rollback "
        "roll+out/rolled+out enable disable provision ship trigger spin+up/spun+up redeploy "
        "shut+down/shut+down kill benchmark lint revert",
        "ausgefuhrt installiert deployt deployed bereitgestellt ausgerollt getestet kompiliert "
        "gebaut committet commited committed gepusht gemergt geklont gestartet neugestartet "
        "hochgefahren heruntergefahren aktiviert deaktiviert migriert durchgefuhrt",
    ),
    _deed(
        "web request run write",
        "download upload fetch retrieve scrape pull",
        "heruntergeladen hochgeladen abgerufen geholt abgeholt",
    ),
    _deed(
        "web request files recall run",
        "search google look+up/looked+up browse visit consult query",
        "gesucht recherchiert nachgeschlagen gegoogelt durchsucht besucht abgefragt",
    ),
    _deed(
        "files web recall run request",
        "read/read check verify/verified inspect review open scan examine confirm "
        "double-check look+at/looked+at look+into/looked+into look+through/looked+through "
        "go+through/went+through find/found list analyze analyse audit monitor validate measure "
        "see/saw/seen",
        "gelesen gepruft uberpruft nachgesehen nachgeschaut angesehen angeschaut geoffnet "
        "durchgesehen kontrolliert untersucht gefunden verifiziert eingesehen",
        "look",
    ),
    _deed(
        "schedule request send",
        "cancel/canceled/cancelled call+off/called+off",
        "abgesagt",
    ),
    _deed(
        "schedule request run",
        "pause resume unpause snooze",
        "pausiert fortgesetzt",
    ),
    _deed(
        "schedule request",
        "schedule remind reschedule",
        "geplant eingeplant terminiert erinnert gestellt gesetzt",
    ),
    _deed(
        "request send",
        "book reserve order buy/bought purchase pay/paid transfer "
        "register subscribe refund donate rent wire",
        "gebucht reserviert bestellt gekauft bezahlt uberwiesen storniert gekundigt "
        "angemeldet abonniert registriert bestatigt",
    ),
    _deed(
        "write run request send schedule memory",
        "complete process handle perform carry+out apply activate arrange place finalize finalise",
        "abgeschlossen bearbeitet veranlasst ausgelost",
        "text",
    ),
    _deed("memory write", "remember memorize memorise", "gemerkt eingepragt notiert"),
)
