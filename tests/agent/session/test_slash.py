"""Slash commands by name."""

import pytest

from elwood.agent.session.commands.slash import SlashCommands
from elwood.agent.session.extension import CommandAnswer, CommandCall, SlashCommand


async def run_command(call: CommandCall) -> CommandAnswer:
    return CommandAnswer("")


def test_command_names_are_unique() -> None:
    one = SlashCommand(name="one", help="", run=run_command, aliases=("uno",))
    with pytest.raises(ValueError, match="two slash commands are called /uno"):
        SlashCommands([one, SlashCommand(name="uno", help="", run=run_command)])


def test_messages_wait_behind_a_branching_command() -> None:
    known = SlashCommands(
        [
            SlashCommand(name="one", help="", run=run_command, aliases=("uno",), handling="move"),
            SlashCommand(name="two", help="", run=run_command, handling="rest"),
            SlashCommand(name="three", help="", run=run_command, handling="long"),
        ]
    )
    assert known.moving == {"one", "uno", "two"}
    assert known.find("uno") is known.find("one")
