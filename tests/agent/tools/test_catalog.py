"""Merging and choosing tools."""

import attrs
import pytest

from elwood.agent.tools.catalog import Clash, choose, merge


@attrs.frozen
class Named:
    name: str
    id: str
    description: str = ""


def test_sources_are_merged_in_order() -> None:
    a, b = Named("a", "x.a"), Named("b", "y.b")
    assert merge({"one": [a], "two": [b]}) == (a, b)


def test_all_clashes_are_told_at_once() -> None:
    with pytest.raises(Clash) as caught:
        merge(
            {
                "Elwood": [Named("read", "files.read"), Named("send", "talk.send")],
                "mail": [Named("send", "mail.send"), Named("get", "files.read")],
            }
        )
    assert caught.value.clashes == (
        "send comes from Elwood and from mail",
        "files.read comes from Elwood and from mail",
    )


def test_a_source_may_not_bring_a_name_twice() -> None:
    with pytest.raises(Clash, match="from mail and from mail"):
        merge({"mail": [Named("send", "a"), Named("send", "b")]})


def test_what_fits_the_words_is_chosen_and_stays_in_order() -> None:
    tools = [Named(f"tool_{n}", f"x.{n}") for n in range(5)]
    tools += [Named("send_mail", "mail.send", "Send a letter."), Named("read_mail", "mail.read")]
    assert choose(tools, "send a mail to Ann", 2) == (tools[5], tools[6])
    assert choose(tools, "", 2) == tuple(tools[:2])
    assert choose(tools, "anything", 100) == tuple(tools)
