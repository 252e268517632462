"""Everything that can be set, with its defaults; what each means stands in `config.keys`."""

from pathlib import Path
from typing import Literal

import attrs

from elwood.core.redaction import Secret


@attrs.frozen(kw_only=True)
class Owner:
    """The person Elwood works for."""

    name: str = ""
    timezone: str = "UTC"


@attrs.frozen(kw_only=True)
class Paths:
    """Folders; absolute."""

    state: Path
    workspace: Path
    runtime: Path


@attrs.frozen(kw_only=True)
class Models:
    """Which models think, as provider/name."""

    default: str = "anthropic/claude-sonnet-5-5"
    summarizer: str = "anthropic/claude-haiku-5-5"
    fallback: tuple[str, ...] = ()
    max_tokens: int = 16_000
    in_flight: int = 64


@attrs.frozen(kw_only=True)
class Provider:
    """A service that runs models."""

    codec: Literal["anthropic", "openai", "offline"]
    base_url: str = ""
    key: Secret | None = None
    version: str = "2026-10-21"
    echo_reasoning: Literal[
        "none", "reasoning", "reasoning_content", "reasoning_details", "thinking_chunk"
    ] = "none"


@attrs.frozen(kw_only=True)
class Limits:
    """What may be spent; None means no limit."""

    session_tokens: int | None = None
    session_usd: float | None = None
    day_tokens: int | None = None
    day_usd: float | None = None


@attrs.frozen(kw_only=True)
class Turn:
    """Bounds of one answer; times in seconds."""

    max_rounds: int = 20
    deadline: float = 900.0
    model_deadline: float = 300.0
    tool_deadline: float = 60.0
    context_tokens: int = 150_000


@attrs.frozen(kw_only=True)
class Sessions:
    """Life of a conversation in memory; times in seconds."""

    idle: float = 600.0


@attrs.frozen(kw_only=True)
class Telegram:
    """The Telegram channel; off without a token."""

    token: Secret | None = None
    owners: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    base_url: str = "https://api.telegram.org"
    messages_per_second: float = 25.0
    poll: float = 50.0


@attrs.frozen(kw_only=True)
class Log:
    """What is written to stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"


@attrs.frozen(kw_only=True)
class Watchdog:
    """After how many seconds something is stuck and told to the owner."""

    turn: float = 1200.0
    poll: float = 120.0
    delivery: float = 60.0


@attrs.frozen(kw_only=True)
class Config:
    """All settings.  *file* is where they stand; *inline* names the secrets in clear in it."""

    paths: Paths
    providers: dict[str, Provider]
    file: Path
    owner: Owner = attrs.field(factory=Owner)
    models: Models = attrs.field(factory=Models)
    limits: Limits = attrs.field(factory=Limits)
    turn: Turn = attrs.field(factory=Turn)
    sessions: Sessions = attrs.field(factory=Sessions)
    telegram: Telegram = attrs.field(factory=Telegram)
    log: Log = attrs.field(factory=Log)
    watchdog: Watchdog = attrs.field(factory=Watchdog)
    inline: tuple[str, ...] = ()

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every secret, for redaction."""
        keys = [provider.key for provider in self.providers.values()]
        return tuple(secret for secret in (self.telegram.token, *keys) if secret is not None)


# Sections and the classes of their keys.  `providers` is none: it holds one Provider per name.
SECTIONS: dict[str, type] = {
    "owner": Owner,
    "paths": Paths,
    "models": Models,
    "limits": Limits,
    "turn": Turn,
    "sessions": Sessions,
    "telegram": Telegram,
    "log": Log,
    "watchdog": Watchdog,
}
# Providers that exist without being written down; what is written adds to them.
BUILT_IN: dict[str, dict[str, object]] = {
    "anthropic": {"codec": "anthropic", "base_url": "https://api.anthropic.com"},
    "openai": {"codec": "openai", "base_url": "https://api.openai.com/v1"},
    "ollama": {"codec": "openai", "base_url": "http://127.0.0.1:11434/v1"},
}
