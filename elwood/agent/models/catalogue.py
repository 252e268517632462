"""Compares the configured models with those that their providers offer."""

import logging
from collections.abc import Mapping

from elwood.agent.models.provider import Catalogued, ModelFailure, Provider
from elwood.agent.models.routing import PAUSES, warnings
from elwood.agent.models.settings import ModelSettings
from elwood.foundation.runtime import report_error

log = logging.getLogger("elwood.models")


async def check_models(settings: ModelSettings, providers: Mapping[str, Provider]) -> None:
    """Warn of configured models that are retired or unknown; failing to is no failure."""
    names = dict.fromkeys((settings.default, settings.summarizer, *settings.fallbacks))
    for provider, client in providers.items():
        if not isinstance(client, Catalogued):
            continue
        try:
            found = warnings(names, provider, await client.offers())
        except ModelFailure as error:
            level = logging.WARNING if error.kind in PAUSES else logging.INFO
            log.log(level, "models not checked", extra={"why": str(error)})
            continue
        for model, why in found.items():
            log.warning("model at risk", extra={"model": model, "why": why})
            report_error(f"model {model}", why)
