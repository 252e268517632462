"""The built-in slash commands, as tests ask about them."""

from elwood.agent.session.commands.built_in import BUILT_IN
from elwood.agent.session.commands.slash import SlashCommands

# Those that people see.
SHOWN = [one for one in BUILT_IN if one.menu != "nobody"]
NAMES = [one.name for one in SHOWN]
# The names of those that move the conversation.
MOVING = SlashCommands(BUILT_IN).moving
