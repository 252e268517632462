"""Settings of models: roles, providers, prices and limits."""

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal
from urllib.parse import urlsplit

import attrs

from elwood.agent.conversation.run import Budget
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import (
    BadSetting,
    Complaint,
    Config,
    Key,
    Loaded,
    Report,
    Section,
    Tables,
    at_least,
    between,
    is_url,
    required,
    secret,
    setting,
    suggest_name,
)

# A provider's name becomes part of a credential's name.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
# The field for reasoning when an OpenAI history is sent back.
EchoReasoning = Literal["none", "reasoning", "reasoning_content", "reasoning_details"]
# Effort of a model's thinking, in the words of the services; its manual lists the valid ones.
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
# Uses of models.
ROLES = ("default", "cheap", "summarizer", "observer", "heartbeat")
# The default models of the roles that have no other.
_USUAL = {"default": "anthropic/claude-sonnet-5-5", "cheap": "anthropic/claude-haiku-5-5"}
# Default of the maximum tokens of a response.
MAX_TOKENS = 16_000


def is_model(name: str, remedy: str = "write provider/name, as in openai/gpt-5.4") -> None:
    """Check for ``provider/name``."""
    provider, slash, model = name.partition("/")
    if not (provider and slash and model):
        raise BadSetting(f"{name!r} is not a model", remedy)


def is_role(name: str) -> None:
    """Check for the model of a task: a role or a model."""
    if name not in ROLES:
        is_model(name, "write cheap, default or provider/name")


def _check_models(loaded: Loaded) -> Iterator[Complaint]:
    """Find unknown roles and, in all sections, models of unknown providers."""
    roles = ("models", "roles")
    for name in {where[2] for where, _, _ in loaded.values if where[:2] == roles} - {*ROLES}:
        yield (*roles, name), "there is no such role", f"there are {', '.join(ROLES)}"
    known = sorted(loaded.names["providers"])
    named = [(w, value) for w, key, value in loaded.values if key.check in (is_model, is_role)]
    prices = loaded.config.get(ModelSettings).prices
    for where, value in (*named, *((("models", "prices", model), f"{model}/") for model in prices)):
        provider, slash, _ = str(value).partition("/")
        if not slash or provider in known:
            continue
        remedy = suggest_name(provider, known) or f"there are {', '.join(known)}"
        yield where, f"there is no provider {provider}", remedy


@attrs.frozen(kw_only=True)
class PriceSettings:
    """Price of a model; tokens from a provider's cache cost as much as *input* by default."""

    input: float = required(help="US dollars per million input tokens", check=at_least(0))
    output: float = required(help="US dollars per million output tokens", check=at_least(0))
    cached: float | None = setting(
        None,
        help="US dollars per million input tokens read from the provider's cache",
        check=at_least(0),
    )


@attrs.frozen(kw_only=True)
class RoleSettings:
    """The keys of a role; None: not set."""

    model: str | None = setting(
        None,
        help="the first model to use, as provider/name",
        check=is_model,
        default="`anthropic/claude-sonnet-5-5` for `default`, `anthropic/claude-haiku-5-5` for "
        "`cheap`; else that of `cheap`",
    )
    fallbacks: tuple[str, ...] | None = setting(
        None,
        help="models to use, in this order, when the first one cannot answer",
        check=is_model,
        default="the models of `default` for `summarizer`; else none",
    )
    max_tokens: int | None = setting(
        None,
        help="maximum tokens of one response, including thinking",
        check=at_least(1),
        default="16000 for `default`; else that of `default`",
    )
    thinking: Effort | None = setting(
        None,
        help="how much it thinks; a model that does not support the value refuses the request",
        default="the model's own default",
    )


@attrs.frozen
class ModelRole:
    """A resolved role: *models* in order, and the parameters of each request."""

    models: tuple[str, ...]
    max_tokens: int
    thinking: Effort | None

    @property
    def model(self) -> str:
        return self.models[0]


@attrs.frozen(kw_only=True)
class ModelSettings:
    """Models are named ``provider/model``; *roles* maps each use to its models."""

    SECTION: ClassVar = Section(
        "models",
        "The models, each in a role. `default` answers you. `cheap` does simple "
        "jobs, such as the weekly reflection. `summarizer` shortens long "
        "conversations, `observer` learns from them, and `heartbeat` works through "
        "HEARTBEAT.md. If one of these three has no `model`, its missing keys come "
        "from `cheap`.",
        verify=_check_models,
    )

    roles: Mapping[str, RoleSettings] = setting(
        {},
        help="models by role: a table `[models.roles.NAME]` each, with model, "
        "fallbacks, max_tokens and thinking",
        example='{ default = { model = "anthropic/claude-sonnet-5-5" } }',
    )
    patience: float = setting(
        120.0,
        help="seconds that `elwood chat` and `once` retry a model that fails or cannot "
        "be reached; `elwood run` retries for up to 15 minutes",
        check=between(1, 900),
    )
    retries: int = setting(
        200, help="maximum retries of one model for one response", check=between(0, 1000)
    )
    prices: Mapping[str, PriceSettings] = setting(
        {},
        help="prices of models that Elwood has no price for, by `provider/name` or `provider/*`",
        example='{ "ollama/*" = { input = 0.0, output = 0.0 } }',
    )

    def role(self, name: str) -> ModelRole:
        """Return the role *name*; for a model's name, the default role with that model first.

        A summary by an expensive model is better than none; this is not true of the observer, nor
        of roles that should be cheap.
        >>> default, cheap = RoleSettings(model="local/qwen"), RoleSettings(model="a/s")
        >>> settings = ModelSettings(roles={"default": default, "cheap": cheap})
        >>> settings.role("summarizer").models, settings.role("heartbeat").models
        (('a/s', 'local/qwen'), ('a/s',))
        >>> settings.role("b/large").models
        ('b/large', 'local/qwen')
        """
        if "/" in name:
            usual = self.role("default")
            return attrs.evolve(usual, models=tuple(dict.fromkeys((name, *usual.models))))
        if name not in ROLES:
            return self.role("default")  # a task that another version recorded
        own = self.roles.get(name, RoleSettings())
        if own.model is None and name not in _USUAL:
            written = attrs.asdict(own, filter=lambda _, value: value is not None)
            own = attrs.evolve(self.roles.get("cheap", RoleSettings()), **written)
        model = own.model or _USUAL["default" if name == "default" else "cheap"]
        others = own.fallbacks
        if others is None:
            others = self.role("default").models if name == "summarizer" else ()
        most = own.max_tokens
        if most is None:
            most = MAX_TOKENS if name == "default" else self.role("default").max_tokens
        return ModelRole(tuple(dict.fromkeys((model, *others))), most, own.thinking)


def models_in_use(config: Config) -> tuple[str, ...]:
    """Return every model that a setting names, by itself or by a role."""
    models = config.get(ModelSettings)
    others = (value for value in config.values.values() if value is not models)
    roles = (*ROLES, *(role for value in others for role in _roles(value)))
    return tuple(dict.fromkeys(model for role in roles for model in models.role(role).models))


def _roles(settings: object) -> Iterator[str]:
    if (in_tables := getattr(settings, "roles", None)) is not None:  # those of tasks
        yield from in_tables()
    for field in getattr(type(settings), "__attrs_attrs__", ()):
        key, named = field.metadata.get(Key), getattr(settings, field.name)
        if key is not None and key.check in (is_model, is_role) and named:
            yield from (named,) if isinstance(named, str) else named


@attrs.frozen(kw_only=True)
class ProviderSettings:
    """A service that runs models; *api* is its protocol.

    It runs *in_flight* requests at a time; silence of *stall* seconds ends a response.
    *version* is the ``anthropic-version``; *echo_reasoning* and *limit_field* are only for
    services with OpenAI's API.
    """

    api: Literal["anthropic", "openai", "offline"] = required(
        help="the provider's API; offline is a rule-based model without a network"
    )
    base_url: str = setting("", help="base URL of the API; Elwood adds the paths", check=is_url)
    key: Secret | None = secret("NAME-key", "NAME_API_KEY")
    in_flight: int = setting(64, help="maximum number of concurrent calls", check=between(1, 1000))
    stall: float = setting(
        90.0, help="seconds without data after which Elwood ends a response", check=between(1, 3600)
    )
    version: str = setting("2026-10-21", help="for the API anthropic: the anthropic-version header")
    thoughts: bool = setting(
        False,
        help="for the API anthropic: request summaries of the model's thinking, which "
        "elwood chat shows at Ctrl-O (models 4.6 and later)",
    )
    echo_reasoning: EchoReasoning = setting(
        "none", help="for the API openai: the field that sends earlier reasoning back"
    )
    vision: bool = setting(False, help="true if its models can read pictures")
    limit_field: Literal["max_tokens", "max_completion_tokens", "none"] = setting(
        "max_tokens", help="for the API openai: the name of the field for max_tokens"
    )


def can_think(config: Config, role: str) -> bool:
    """Return True if *role* has a real model, not the offline model."""
    provider = config.get(ModelSettings).role(role).model.partition("/")[0]
    settings = config.get(Providers).by_name.get(provider)
    return settings is not None and settings.api != "offline"


# Services that require a key.
KEYED = ("api.anthropic.com", "api.openai.com", "openrouter.ai")


def lacks_key(provider: ProviderSettings) -> bool:
    """Return True if a service that requires a key has none; others may be local."""
    return provider.key is None and urlsplit(provider.base_url).hostname in KEYED


def key_remedy(name: str) -> str:
    """Describe where to put the key of the provider *name*."""
    variable = f"${name.upper().replace('-', '_')}_API_KEY"
    return (
        f"put it into the credential {name}-key, into {variable}, or name a file that has it in "
        f"providers.{name}.key"
    )


def _providers(
    tables: Mapping[str, ProviderSettings], config: Config, report: Report
) -> "Providers":
    for name, provider in tables.items():
        if not _NAME.fullmatch(name):
            remedy = "use lower-case letters, digits, - and _"
            report(("providers", name), "not a name for a provider", remedy)
        elif provider.api != "offline" and not provider.base_url:
            where = ("providers", name, "base_url")
            report(where, "is missing", "write the API's address")
    return Providers(tables)


@attrs.frozen
class Providers:
    SECTION: ClassVar = Section(
        "providers",
        "Services that run models, one table each. `anthropic`, `openai`, "
        "`openrouter`, `ollama` (at 127.0.0.1:11434) and `offline` are built in; "
        "your keys override their defaults. The variable of a key is in capitals, "
        "as in `$ANTHROPIC_API_KEY`.",
        tables=Tables(
            item=ProviderSettings,
            keyed=True,
            collect=_providers,
            example="""\
#[providers.local]
#api = "openai"
#base_url = "http://127.0.0.1:9931/v1"
""",
            built_in={
                "anthropic": {
                    "api": "anthropic",
                    "base_url": "https://api.anthropic.com",
                    "vision": True,
                },
                "openai": {
                    "api": "openai",
                    "base_url": "https://api.openai.com/v1",
                    "vision": True,
                    # Its newer models know no other; most other services know only the old one.
                    "limit_field": "max_completion_tokens",
                },
                "openrouter": {"api": "openai", "base_url": "https://openrouter.ai/api/v1"},
                "ollama": {"api": "openai", "base_url": "http://127.0.0.1:11434/v1"},
                "offline": {"api": "offline"},
            },
        ),
    )

    by_name: Mapping[str, ProviderSettings] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Limits:
    """Hard limits of spending; None means no limit, and so do 0 tokens."""

    SECTION: ClassVar = Section(
        "limits",
        "Spending limits. Before each model call Elwood reserves the highest "
        "possible cost of the call. A token read from a provider's cache counts as "
        "a tenth. With a limit in dollars Elwood refuses models of unknown price "
        "(`models.prices`).",
    )

    session_tokens: int = setting(
        500_000,
        help="maximum tokens of one conversation; /new begins another; 0: no limit",
        check=at_least(0),
    )
    session_usd: float | None = setting(
        None,
        help="maximum US dollars of one conversation; /new begins another",
        check=at_least(0),
        example="5.0",
    )
    day_tokens: int = setting(
        5_000_000, help="maximum tokens per day; 0: no limit", check=at_least(0)
    )
    day_usd: float | None = setting(
        None, help="maximum US dollars per day", check=at_least(0), example="20.0"
    )
    month_tokens: int | None = setting(
        None, help="maximum tokens per month", check=at_least(1), example="100000000"
    )
    month_usd: float | None = setting(
        None, help="maximum US dollars per month", check=at_least(0), example="200.0"
    )
    job_tokens: int | None = setting(
        2_000_000, help="maximum tokens per day of a task without its own limit", check=at_least(1)
    )
    job_usd: float | None = setting(
        1.0, help="maximum US dollars per day of a task without its own limit", check=at_least(0)
    )
    warn: float = setting(
        0.8,
        help="fraction of a limit at which Elwood warns you, once per period; 0: never, "
        "1: when it is reached",
        check=between(0, 1),
    )

    def budget(self, own: Budget | None) -> Budget:
        """Return the daily budget of a job, with the defaults for what *own* leaves out."""
        own = own or Budget()
        return Budget(
            self.job_tokens if own.tokens is None else own.tokens,
            self.job_usd if own.usd is None else own.usd,
        )
