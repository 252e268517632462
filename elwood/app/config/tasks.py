"""Knows what of the configuration HEARTBEAT.md is read with."""

from elwood.agent.models.routing import split_name
from elwood.app.config.settings import Config
from elwood.features.tasks import heartbeat


def read_checklist(config: Config, text: str) -> heartbeat.Checklist:
    """Make the tasks of the *text* of HEARTBEAT.md, as *config* has it."""
    owner = config.owner
    # Others have no client.
    providers = {split_name(model)[0] for model in config.models_in_use}
    return heartbeat.read(text, config.heartbeat, owner.timezone, owner.hours, providers)
