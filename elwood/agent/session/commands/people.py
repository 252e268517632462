"""``/people``: list the people who may talk to Elwood, and change that."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from elwood.agent.people.messages import ChangeAccess
from elwood.agent.people.state import KnownPerson
from elwood.agent.session.extension import CommandAnswer
from elwood.agent.session.paging import page, parse_page
from elwood.foundation.text.lines import literal, shorten

# People per page, and characters of a name on a button.
PAGE, LABEL = 8, 30
REALLY = (
    "Really remove {}? I will drop their open requests and revoke the permissions that you gave "
    "for them. I will not tell them. If they write again, they are strangers. Their reminders "
    "stay: /tasks lists them."
)


def answer_people(
    people: Sequence[KnownPerson], given: str, by: str, zone: tzinfo
) -> CommandAnswer | ChangeAccess:
    """Answer ``/people`` with the arguments *given*, or return the change that *by* wants."""
    named = {one.principal: one for one in people}
    match given.split():
        case ["remove", who, "yes"]:
            return ChangeAccess(who=who, role=None, by=by)
        case ["remove", who] if who in named and named[who].setting:
            return ChangeAccess(who=who, role=None, by=by)
        case ["remove", who] if who in named:
            text = REALLY.format(f"{literal(_name(named[who]))} ({who})")
            yes = f"Yes, remove {shorten(_name(named[who]), LABEL)}"
            return CommandAnswer(text, pages={yes: f"/people remove {who} yes"})
        case ["member", who]:
            return ChangeAccess(who=who, role="member", by=by)
        case ["guest", who]:
            return ChangeAccess(who=who, role="guest", by=by)
        case [who] if who in named:
            name, role = shorten(_name(named[who]), LABEL), named[who].role
            other = "guest" if role == "member" else "member"
            pages = {f"Make {name} a {other}": f"/people {other} {who}"} if role != "group" else {}
            pages[f"Remove {name}"] = f"/people remove {who}"
            pages = {} if named[who].setting else pages
            return CommandAnswer(literal(_describe_person(named[who], zone)), pages=pages)
    asked, number = parse_page(given)
    if asked:
        return CommandAnswer(
            "There is no person with that number. /people lists everyone who may talk to me."
        )
    if not people:
        return CommandAnswer("Only you may talk to me.")
    shown, pages = page(people, number, PAGE, "/people")
    lines = [f"- {literal(_describe_person(one, zone))}" for one in shown]
    buttons = {
        f"{shorten(_name(o), LABEL)} ({o.principal})": f"/people {o.principal}" for o in shown
    }
    return CommandAnswer(
        "\n".join(["These people may also talk to me:", *lines]), pages=buttons | pages
    )


def _describe_person(person: KnownPerson, zone: tzinfo) -> str:
    """Describe a person in a line: name, role, and date."""
    since = f", since {datetime.fromtimestamp(person.since, zone):%Y-%m-%d}" if person.since else ""
    role = "a group that I answer in" if person.role == "group" else person.role
    why = f", allowed by {person.setting}" if person.setting else since
    return f"{_name(person)} ({person.principal}): {role}{why}"


def _name(person: KnownPerson) -> str:
    return person.name or "somebody"
