"""Everything that can be set; what each means stands in `config.keys`.

The rooms have their own settings; here are those of nobody in particular, and how all go together.
"""

from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

import attrs

from elwood.agent.approvals.permissions import ApprovalSettings
from elwood.agent.conversation.limits import TurnSettings
from elwood.agent.models.budget import Limits
from elwood.agent.models.routing import ModelSettings, ProviderSettings, candidates
from elwood.agent.policy.decide import Word
from elwood.features.memory.settings import LearningSettings, MemorySettings
from elwood.features.tasks.heartbeat import HeartbeatSettings
from elwood.features.tasks.task import Task
from elwood.features.telegram.settings import TelegramSettings
from elwood.features.web.settings import SearchSettings
from elwood.foundation.net.egress import EgressRules
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.secrets.redaction import Secret


@attrs.frozen(kw_only=True)
class Owner:
    """The person Elwood works for, who may be bothered in *hours*."""

    name: str = ""
    timezone: str = "UTC"
    hours: str = "08:00-22:00"


@attrs.frozen(kw_only=True)
class Paths:
    """Folders; absolute."""

    state: Path
    workspace: Path
    runtime: Path


@attrs.frozen(kw_only=True)
class Sessions:
    """Life of a conversation; times in seconds."""

    idle: float = 600.0
    archive: float = 86_400.0


@attrs.frozen(kw_only=True)
class Policy:
    """Tools that are allowed, asked about or denied, by name or a pattern of the id (``web.*``)."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def words(self) -> dict[str, Word]:
        """Give the word for each name and pattern; what comes later, and is stricter, holds."""
        words: dict[str, Word] = {}
        said: dict[Word, tuple[str, ...]] = {
            "allow": self.allow,
            "ask": self.ask,
            "deny": self.deny,
        }
        for word, names in said.items():
            for name in names:
                words.pop(name, None)
                words[name] = word
        return words


@attrs.frozen(kw_only=True)
class Skills:
    """Skills beside those of the workspace, in *folders*; *always* names those in every prompt."""

    folders: tuple[Path, ...] = ()
    always: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


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
class Backups:
    """Where backups go and how many stay; *every* in seconds (0: never), *size* in megabytes."""

    folder: Path | None = None
    keep: int = 7
    every: float = 86_400.0
    size: int = 4096


@attrs.frozen(kw_only=True)
class Config:
    """All settings.  *file* is where they stand; *inline* names the secrets in clear in it."""

    paths: Paths
    providers: dict[str, ProviderSettings]
    file: Path
    owner: Owner = attrs.field(factory=Owner)
    models: ModelSettings = attrs.field(factory=ModelSettings)
    limits: Limits = attrs.field(factory=Limits)
    heartbeat: HeartbeatSettings = attrs.field(factory=HeartbeatSettings)
    tasks: tuple[Task, ...] = ()
    turn: TurnSettings = attrs.field(factory=TurnSettings)
    approvals: ApprovalSettings = attrs.field(factory=ApprovalSettings)
    sessions: Sessions = attrs.field(factory=Sessions)
    memory: MemorySettings = attrs.field(factory=MemorySettings)
    learning: LearningSettings = attrs.field(factory=LearningSettings)
    telegram: TelegramSettings = attrs.field(factory=TelegramSettings)
    policy: Policy = attrs.field(factory=Policy)
    egress: EgressRules = attrs.field(factory=EgressRules)
    search: SearchSettings = attrs.field(factory=SearchSettings)
    sandbox: SandboxSettings = attrs.field(factory=SandboxSettings)
    skills: Skills = attrs.field(factory=Skills)
    backup: Backups = attrs.field(factory=Backups)
    log: Log = attrs.field(factory=Log)
    watchdog: Watchdog = attrs.field(factory=Watchdog)
    inline: tuple[str, ...] = ()

    @property
    def zone(self) -> ZoneInfo:
        """Where the owner lives."""
        return ZoneInfo(self.owner.timezone)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every secret, for redaction."""
        keys = [provider.key for provider in self.providers.values()]
        found = (self.telegram.token, self.search.brave_key, *keys)
        return tuple(secret for secret in found if secret is not None)

    @property
    def backup_folder(self) -> Path:
        """Where backups lie."""
        return self.backup.folder or self.paths.state / "backups"

    @property
    def models_in_use(self) -> tuple[str, ...]:
        """Every model that may be asked to think: in conversations, for summaries, by tasks."""
        roles = ("default", "summarizer", self.heartbeat.model, *(job.role for job in self.tasks))
        found = (model for role in roles for model in candidates(self.models, role))
        return tuple(dict.fromkeys(found))


# Sections and the classes of their keys.  `providers` is none: it has one of
# ProviderSettings per name; nor is `tasks`, which has one `TaskForm` each.
SECTIONS: dict[str, type] = {
    "owner": Owner,
    "paths": Paths,
    "models": ModelSettings,
    "limits": Limits,
    "heartbeat": HeartbeatSettings,
    "turn": TurnSettings,
    "approvals": ApprovalSettings,
    "sessions": Sessions,
    "memory": MemorySettings,
    "learning": LearningSettings,
    "telegram": TelegramSettings,
    "policy": Policy,
    "egress": EgressRules,
    "search": SearchSettings,
    "sandbox": SandboxSettings,
    "skills": Skills,
    "backup": Backups,
    "log": Log,
    "watchdog": Watchdog,
}
# Providers that exist without being written down; what is written adds to them.
BUILT_IN: dict[str, dict[str, object]] = {
    "anthropic": {"api": "anthropic", "base_url": "https://api.anthropic.com"},
    "openai": {
        "api": "openai",
        "base_url": "https://api.openai.com/v1",
        # Its newer models know no other; most other services know only the old one.
        "limit_field": "max_completion_tokens",
    },
    "ollama": {"api": "openai", "base_url": "http://127.0.0.1:11434/v1"},
    "offline": {"api": "offline"},
}
