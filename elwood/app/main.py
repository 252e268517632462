"""The features, settings and commands of the program.

Imports only records: every command reads this file.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, import_lazily
from elwood.agent.tools.known import TALK
from elwood.features.backup.feature import FEATURE as backup
from elwood.features.console.feature import FEATURE as console
from elwood.features.console.feature import chat, once, sit
from elwood.features.control.feature import FEATURE as control
from elwood.features.conversations.feature import FEATURE as conversations
from elwood.features.daily_notes.feature import FEATURE as daily_notes
from elwood.features.files.feature import FEATURE as files
from elwood.features.health.feature import FEATURE as health
from elwood.features.mcp.feature import FEATURE as mcp
from elwood.features.mcp_serve.feature import FEATURE as mcp_serve
from elwood.features.memory.feature import FEATURE as memory
from elwood.features.own_settings.feature import FEATURE as own_settings
from elwood.features.shell.feature import FEATURE as shell
from elwood.features.skills.feature import FEATURE as skills
from elwood.features.tasks.feature import FEATURE as tasks
from elwood.features.telegram.feature import FEATURE as telegram
from elwood.features.web.feature import FEATURE as web

if TYPE_CHECKING:
    from elwood.foundation.checks import Check, Finding
    from elwood.foundation.settings import Config, Settings

# The features, in the order in which the model sees their tools.  To disable a feature, remove it
# here.
FEATURES: tuple[Feature, ...] = (
    skills,
    files,
    shell,
    web,
    mcp,
    memory,
    conversations,
    daily_notes,
    tasks,
    own_settings,
    backup,
    health,
    control,
    mcp_serve,
)
# The channels of the service; unconfigured ones are off.
CHANNELS: tuple[Feature, ...] = (telegram, console)
# Conversations at a terminal: `elwood chat` and `elwood once`.
CHAT: Callable[..., int] = chat
ONCE: Callable[..., int] = once
SIT = sit
ALL = (*CHANNELS, *FEATURES)


def sections(features: Iterable[Feature] = ALL) -> "tuple[type[Settings], ...]":
    """Import the sections of config.toml; return them in the order in which they are written."""
    from elwood.agent.approvals.settings import ApprovalSettings
    from elwood.agent.conversation.settings import Owner, TurnSettings
    from elwood.agent.media.settings import MediaSettings
    from elwood.agent.models.settings import Limits, ModelSettings, Providers
    from elwood.agent.policy.settings import PolicySettings
    from elwood.agent.session.settings import SessionSettings
    from elwood.foundation.log import LogSettings
    from elwood.foundation.settings import Paths

    return (
        Owner,
        Paths,
        ModelSettings,
        Providers,
        Limits,
        TurnSettings,
        ApprovalSettings,
        SessionSettings,
        PolicySettings,
        MediaSettings,
        *(_import_class(path) for feature in features for path in feature.settings),
        LogSettings,
    )


def own_sections(features: Iterable[Feature] = ALL) -> "tuple[type[Settings], ...]":
    """Import the sections of agent.toml."""
    return tuple(_import_class(path) for feature in features for path in feature.own)


def _import_class(path: str) -> "type[Settings]":
    """Import the class at *path*, ``module:Class``."""
    module, _, name = path.partition(":")
    section: type[Settings] = getattr(import_module(module), name)
    return section


def tools(features: Iterable[Feature] = ALL) -> dict[str, str]:
    """Return the ids of all tools by name, whether or not a run has them."""
    return TALK | {name: id_ for feature in features for name, id_ in feature.tools.items()}


def checks(features: Iterable[Feature] = ALL) -> "tuple[Check, ...]":
    return (
        import_lazily("elwood.app.doctor", "check"),
        import_lazily("elwood.agent.models.check", "check"),
        import_lazily("elwood.agent.media.check", "check"),
        *(check for feature in features for check in feature.checks),
    )


# Checks before each start; they are local, and never prevent a start.
AT_START: "tuple[Callable[[Config], Iterable[Finding]], ...]" = (
    import_lazily("elwood.agent.models.check", "check_models"),
    import_lazily("elwood.agent.media.check", "programs"),
)
