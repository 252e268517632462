"""Create the client of a configured provider."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from elwood.agent.models.anthropic import Anthropic
from elwood.agent.models.client import HttpProvider
from elwood.agent.models.openai import OpenAI
from elwood.agent.models.settings import ProviderSettings
from elwood.foundation.net.http import Client

if TYPE_CHECKING:
    from elwood.agent.models.offline import OfflineModel


def make_provider(
    name: str, settings: ProviderSettings, *, client: Client, new_id: Callable[[], str]
) -> "HttpProvider | OfflineModel":
    """Create the client of provider *name*; *client* should allow as many connections as calls.

    *new_id* returns ids for tool calls without one.
    """
    if settings.api == "anthropic":
        return Anthropic(name, settings, client)
    if settings.api == "openai":
        return OpenAI(name, settings, client, new_id)
    # Compiling its patterns takes 30 ms, which is not needed with a real model.
    from elwood.agent.models.offline import OfflineModel

    return OfflineModel()
