"""Texts of the question about access of a person or a group."""

from datetime import tzinfo

from elwood.agent.channels.channel import Channels
from elwood.agent.channels.messages import Button
from elwood.agent.channels.questions import build_text, describe_decider, format_time
from elwood.agent.conversation.route import Route
from elwood.agent.people.state import AccessDecided, AccessRequested
from elwood.foundation.text.markdown import Rich


def access_question(asked: AccessRequested) -> Rich:
    """Format the question; the stranger's name is shown as code: no link, no mention."""
    if asked.is_group:
        return build_text(
            (asked.by, "code"),
            (" wants me in the group ", ""),
            (asked.name or "without a name", "code"),
            (
                f" ({asked.principal}). Shall I answer there? Everyone in it can then talk to me, "
                "but I trust only you and the people you approved.",
                "",
            ),
        )
    return build_text(
        ("Someone wants to talk to me: ", ""),
        (asked.name or "someone", "code"),
        (
            f" ({asked.principal})\nTheir code is {asked.code}. "
            "Approve only if they told you this code themselves.",
            "",
        ),
    )


def access_settled(
    asked: AccessRequested,
    decided: AccessDecided | None,
    at: Route,
    channels: Channels,
    now: float,
    zone: tzinfo,
) -> Rich:
    """Format the outcome of a request; None: the code expired without a decision."""
    yes, no = "may talk to me now", "may not talk to me"
    if asked.is_group:
        yes, no = "is a group that I answer in now", "is a group that I stay silent in"
    ended = f"{no}: no one decided in time"
    if decided is not None:
        by = describe_decider(decided.by, at, channels)
        ended = f"{yes if decided.approved else no}, decided {by}"
    name = asked.name or "someone"
    when = format_time(now, zone)
    return build_text((name, "code"), (f" ({asked.principal}) {ended}, {when}.", ""))


def access_buttons(asked: AccessRequested) -> tuple[Button, ...]:
    yes, no = ("Answer there", "Stay silent") if asked.is_group else ("Approve", "Deny")
    return (Button(yes, f"p:{asked.code}:y"), Button(no, f"p:{asked.code}:n"))


def access_pressed(data: str) -> tuple[str, bool] | None:
    """Parse the data of such a button into the code and the answer; None if it is another button.

    >>> access_pressed("p:ABCD2345:y"), access_pressed("p:ABCD2345:o")
    (('ABCD2345', True), None)
    """
    match data.split(":"):
        case ["p", code, "y" | "n" as letter]:
            return code, letter == "y"
    return None
