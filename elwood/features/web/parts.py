"""What web brings to one run of the app."""

from elwood.agent.parts import Gathered, Parts
from elwood.agent.session.core import Core
from elwood.features.web.client import Web
from elwood.features.web.settings import SearchSettings
from elwood.features.web.tools import tools
from elwood.foundation.net.http import Client
from elwood.foundation.net.settings import EgressRules


async def build(core: Core, others: Gathered) -> Parts:
    """Make the clients, and the tools that use them."""
    web, client = Web(core.config.of(EgressRules)), Client(connections=4)
    core.closing.push_async_callback(web.aclose)
    core.closing.push_async_callback(client.aclose)
    search, blocking = core.config.of(SearchSettings), core.environment.blocking
    return Parts(tools=tools(web, search, client, blocking))
