"""Tasks of all kinds, for properties."""

from hypothesis import strategies as st

from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import Hours
from elwood.agent.conversation.task_run import Purse
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Cadence, Cron, Every, Once, When

ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Africa/Monrovia", "Pacific/Kiritimati"]


def clocks() -> st.SearchStrategy[str]:
    """Give times of day."""
    return st.integers(0, 1439).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}")


@st.composite
def sensible(draw: st.DrawFn) -> Task:
    """Give tasks as they are made in conversations: in whole seconds."""
    hours = draw(st.none() | st.builds(Hours, clocks(), clocks(), st.sampled_from([(), (0, 6)])))
    whens: list[st.SearchStrategy[When]] = [
        st.sampled_from(
            [Cron("*/7 * * * *"), Cron("@daily"), Cadence("hourly"), Cadence("weekly")]
        ),
        st.builds(Every, st.integers(60, 86_400).map(float), st.integers(0, 2**31).map(float)),
        st.builds(Once, st.integers(320_000_000, 2**32).map(float)),
    ]
    when = draw(st.one_of(whens))
    zone = draw(st.sampled_from(ZONES))
    id = draw(st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True))
    characters = st.characters(exclude_categories=["Cs"])
    pieces = st.sampled_from(["${", "$${HOME}", '"""', "\n", "\r\n", "\\", "\0", "#"])
    text = "".join(draw(st.lists(st.text(characters) | pieces, min_size=1, max_size=5))) or "x"
    tokens, usd = draw(st.none() | st.integers(1, 10**6)), draw(st.none() | st.floats(0, 100))
    number = draw(st.integers(-(10**12), 10**12))
    is_message = draw(st.booleans())
    return Task(
        id=id,
        title=draw(st.text(characters, min_size=1, max_size=40)),
        when=when,
        zone=zone,
        prompt="" if is_message else text,
        message=text if is_message else "",
        hours=hours,
        session=draw(st.sampled_from(["", "tg-1"])),
        route=draw(st.sampled_from([None, Route("telegram", number, private=number >= 0)])),
        silent=draw(st.booleans()),
        role=draw(st.sampled_from(["default", "cheap", "openai/gpt-5"])),
        tools=draw(st.sampled_from([None, (), ("read_file", "web_search")])),
        purse=None if tokens is usd is None else Purse(tokens, usd),
        catch_up=draw(st.integers(60, 10**6).map(float)),
        watch=draw(st.sampled_from([None, (), ("inbox/*.md", "notes")])),
        ends=draw(st.none() | st.integers(0, 2**32).map(float)),
        untrusted=draw(st.booleans()),
    )
