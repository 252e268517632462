"""Who is speaking, in which session, and whether it is meant for us."""

from collections.abc import Mapping

import attrs

from elwood.foundation.text.lines import one_line

# With what the names of Telegram's sessions begin.
PREFIX = "tg-"


@attrs.frozen
class Principal:
    """A person: *id* as the channel proves it (``tg:<user id>``), never a name they chose."""

    id: str
    name: str
    owner: bool


@attrs.frozen
class Mark:
    """A formatted span as Telegram counts: *offset* and *length* in UTF-16 code units."""

    type: str
    offset: int
    length: int
    user: int | None = None


@attrs.frozen(kw_only=True)
class Heard:
    """What matters of a message for the question who wrote it to whom.

    *sender* is ``from.id``.  *anonymous* says that no person stands behind it: written in the
    name of a chat, by way of a bot, or by a bot.  *answers* is the author of the message that it
    replies to.
    """

    chat: int
    private: bool
    sender: int | None
    name: str = ""
    topic: int | None = None
    anonymous: bool = False
    text: str = ""
    marks: tuple[Mark, ...] = ()
    answers: int | None = None


@attrs.frozen(kw_only=True)
class House:
    """Who we are and whom the configuration names.

    *moved* maps the present id of an upgraded group to the id that its session is named after.
    """

    bot: int
    username: str
    owners: frozenset[int]
    groups: frozenset[int] = frozenset()
    moved: Mapping[int, int] = attrs.field(factory=dict)


@attrs.frozen
class Ignored:
    """Not for us, or not from a person."""

    why: str


@attrs.frozen
class Addressed:
    """*principal* says *text* to us in *session*; whether they may is not decided by that."""

    principal: Principal
    session: str
    text: str


def identify(heard: Heard, house: House) -> Ignored | Addressed:
    """Say who speaks, in which session, and take our own name out of the text.

    Rights hang on ``from.id`` alone: names can be chosen, and a group holds many people.  In
    groups only what mentions us, answers us or commands us by name is for us (TG-27, TG-31).

    >>> house = House(bot=7, username="elwood_bot", owners=frozenset({1}))
    >>> identify(Heard(chat=1, private=True, sender=1, name="Ann", text="hi"), house)
    Addressed(principal=Principal(id='tg:1', name='Ann', owner=True), session='tg-1', text='hi')
    >>> identify(Heard(chat=-5, private=False, sender=1, text="hi"), house)
    Ignored(why='this group is not allowed')
    """
    if heard.anonymous or heard.sender is None:
        return Ignored("not written by a person")
    if not heard.private and not is_allowed(heard.chat, house):
        return Ignored("this group is not allowed")
    ours = _our_spans(heard, house)
    if not (heard.private or ours or heard.answers == house.bot):
        return Ignored("not addressed to us")
    who = Principal(
        person(heard.sender), one_line(heard.name) or "somebody", heard.sender in house.owners
    )
    # A bare mention keeps its text: there must be something to answer.
    text = _without(heard.text, ours).strip() or heard.text
    return Addressed(who, session_of(heard.chat, heard.topic, house.moved), text)


def person(user: int) -> str:
    """Name the Telegram user *user* as principals are named.

    >>> person(12)
    'tg:12'
    """
    return f"tg:{user}"


def user_of(principal: str) -> int | None:
    """Return the Telegram user that *principal* names, whose private chat has the same id.

    >>> user_of("tg:12"), user_of("console"), user_of("tg:-5")
    (12, None, None)
    """
    head, _, number = principal.partition(":")
    return int(number) if head == "tg" and number.isascii() and number.isdigit() else None


def session_of(chat: int, topic: int | None, moved: Mapping[int, int]) -> str:
    """Name the session of a chat and topic: safe as a file name, the same after an upgrade.

    >>> session_of(-100, 4, {-100: -5}), session_of(7, None, {})
    ('tg--5-4', 'tg-7')
    """
    first = moved.get(chat, chat)
    return f"{PREFIX}{first}" if topic is None else f"{PREFIX}{first}-{topic}"


def is_allowed(group: int, house: House) -> bool:
    """Tell whether *group*, or the group it was before an upgrade, is in the configuration.

    >>> is_allowed(-100, House(bot=7, username="b", owners=frozenset(), moved={-100: -5}))
    False
    """
    return group in house.groups or house.moved.get(group) in house.groups


def _our_spans(heard: Heard, house: House) -> list[tuple[int, int]]:
    """List the parts of the text, in UTF-16 units, that are our name."""
    units = heard.text.encode("utf-16-le", "surrogatepass")
    ours = f"@{house.username}".casefold()
    spans = []
    for mark in heard.marks:
        start, end = mark.offset, mark.offset + mark.length
        said = units[2 * start : 2 * end].decode("utf-16-le", "replace").casefold()
        if (mark.type == "mention" and said == ours) or (
            mark.type == "text_mention" and mark.user == house.bot
        ):
            spans.append((start, end))
        elif mark.type == "bot_command" and said.endswith(ours):
            spans.append((end - len(ours), end))
    return sorted(span for span in spans if 0 <= span[0] < span[1] <= len(units) // 2)


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    units = text.encode("utf-16-le", "surrogatepass")
    kept = b""
    done = 0
    for start, end in spans:
        if start < done:
            continue
        before = units[2 * done : 2 * start]
        done = end
        # Of the blanks on both sides of a name one goes with it.
        if before[-2:] in (b"", b" \0") and units[2 * end : 2 * end + 2] == b" \0":
            done += 1
        kept += before
    return (kept + units[2 * done :]).decode("utf-16-le", "replace")
