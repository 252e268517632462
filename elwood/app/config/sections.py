"""The sections of config.toml, in the order in which they are written."""

from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.conversation.settings import Owner, TurnSettings
from elwood.agent.models.settings import Limits, ModelSettings, Providers
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.settings import LearningSettings, SessionSettings, WatchdogSettings
from elwood.features.backup.settings import BackupSettings
from elwood.features.memory.settings import MemorySettings
from elwood.features.skills.settings import SkillSettings
from elwood.features.tasks.settings import ConfiguredTasks, HeartbeatSettings
from elwood.features.telegram.settings import TelegramSettings
from elwood.features.web.settings import SearchSettings
from elwood.foundation.log import LogSettings
from elwood.foundation.net.egress import EgressRules
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.settings import Paths, Settings

SECTIONS: tuple[type[Settings], ...] = (
    Owner,
    Paths,
    ModelSettings,
    Providers,
    Limits,
    HeartbeatSettings,
    ConfiguredTasks,
    TurnSettings,
    ApprovalSettings,
    SessionSettings,
    MemorySettings,
    LearningSettings,
    TelegramSettings,
    PolicySettings,
    EgressRules,
    SearchSettings,
    SandboxSettings,
    SkillSettings,
    BackupSettings,
    LogSettings,
    WatchdogSettings,
)
