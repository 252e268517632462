"""Which client speaks for a configured provider."""

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from elwood.agent.models import anthropic, openai
from elwood.agent.models.client import ApiEndpoint
from elwood.agent.models.openai import Form
from elwood.agent.models.provider import ModelRequest, Provider
from elwood.agent.models.settings import ProviderSettings
from elwood.foundation.net.http import Client

if TYPE_CHECKING:
    from elwood.agent.models.offline import OfflineModel


def make_provider(
    name: str,
    settings: ProviderSettings,
    *,
    client: Client,
    now: Callable[[], float],
    new_id: Callable[[], str],
) -> Provider:
    """Make the client of provider *name*; *client* should allow as many connections as calls.

    *now* is the Unix clock, *new_id* names tool calls that a service left without a name.
    """
    url = settings.base_url
    endpoint = ApiEndpoint(name, client, url, key=settings.key, stall=settings.stall, now=now)
    match settings.api:
        case "anthropic":
            return anthropic.Anthropic(endpoint, version=settings.version)
        case "openai":
            return openai.OpenAI(
                endpoint, echo=settings.echo_reasoning, limit=settings.limit_field, new_id=new_id
            )
        case "offline":
            return _offline()()
        case _:
            assert_never(settings.api)


def encoder(settings: ProviderSettings) -> Callable[[ModelRequest], bytes]:
    """Return what makes the body of a request to such a provider, byte for byte."""
    match settings.api:
        case "anthropic":
            return anthropic.encode
        case "openai":
            return Form(settings.echo_reasoning, settings.limit_field).encode
        case "offline":
            return _offline().encode
        case _:
            assert_never(settings.api)


def _offline() -> "type[OfflineModel]":
    # Its many patterns take 30 ms, and who has a model does not need them.
    from elwood.agent.models.offline import OfflineModel

    return OfflineModel
