"""Lists of the built-in slash commands for tests."""

from elwood.agent.session.commands.built_in import BUILT_IN
from elwood.agent.session.commands.slash import SlashCommands

# The commands in the menu.
SHOWN = [one for one in BUILT_IN if one.menu != "nobody"]
NAMES = [one.name for one in SHOWN]
# The names of the commands that move the conversation.
MOVING = SlashCommands(BUILT_IN).moving
