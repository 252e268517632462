"""Attribute access to the sections, until everybody asks `Config.of`."""

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.conversation.settings import Owner, TurnSettings
from elwood.agent.models.settings import Limits, ModelSettings, Providers, ProviderSettings
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.settings import SessionSettings, WatchdogSettings
from elwood.features.backup.settings import BackupSettings
from elwood.features.memory.settings import LearningSettings, MemorySettings
from elwood.features.skills.settings import SkillSettings
from elwood.features.tasks.settings import ConfiguredTasks, HeartbeatSettings
from elwood.features.tasks.task import Task
from elwood.features.telegram.settings import TelegramSettings
from elwood.features.web.settings import SearchSettings
from elwood.foundation.log import LogSettings
from elwood.foundation.net.egress import EgressRules
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.settings import Config as Container
from elwood.foundation.settings import Paths


class Config(Container):
    """A configuration whose sections are attributes, too."""

    @property
    def owner(self) -> Owner:
        return self.of(Owner)

    @property
    def paths(self) -> Paths:
        return self.of(Paths)

    @property
    def models(self) -> ModelSettings:
        return self.of(ModelSettings)

    @property
    def limits(self) -> Limits:
        return self.of(Limits)

    @property
    def heartbeat(self) -> HeartbeatSettings:
        return self.of(HeartbeatSettings)

    @property
    def turn(self) -> TurnSettings:
        return self.of(TurnSettings)

    @property
    def approvals(self) -> ApprovalSettings:
        return self.of(ApprovalSettings)

    @property
    def sessions(self) -> SessionSettings:
        return self.of(SessionSettings)

    @property
    def memory(self) -> MemorySettings:
        return self.of(MemorySettings)

    @property
    def learning(self) -> LearningSettings:
        return self.of(LearningSettings)

    @property
    def telegram(self) -> TelegramSettings:
        return self.of(TelegramSettings)

    @property
    def policy(self) -> PolicySettings:
        return self.of(PolicySettings)

    @property
    def egress(self) -> EgressRules:
        return self.of(EgressRules)

    @property
    def search(self) -> SearchSettings:
        return self.of(SearchSettings)

    @property
    def sandbox(self) -> SandboxSettings:
        return self.of(SandboxSettings)

    @property
    def skills(self) -> SkillSettings:
        return self.of(SkillSettings)

    @property
    def backup(self) -> BackupSettings:
        return self.of(BackupSettings)

    @property
    def log(self) -> LogSettings:
        return self.of(LogSettings)

    @property
    def watchdog(self) -> WatchdogSettings:
        return self.of(WatchdogSettings)

    @property
    def providers(self) -> Mapping[str, ProviderSettings]:
        return self.of(Providers).by_name

    @property
    def tasks(self) -> tuple[Task, ...]:
        return self.of(ConfiguredTasks).tasks

    @property
    def zone(self) -> ZoneInfo:
        return self.owner.zone


def having_attributes(config: Container) -> Config:
    """Give *config* as what `load` makes."""
    assert isinstance(config, Config)
    return config
