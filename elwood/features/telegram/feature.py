from typing import TYPE_CHECKING

from elwood.agent.feature import Feature, import_lazily

if TYPE_CHECKING:
    from elwood.foundation.settings import Config


def _owner(config: "Config") -> str:
    from elwood.features.telegram.settings import TelegramSettings

    owners = config.get(TelegramSettings).owners
    return f"tg:{owners[0]}" if len(owners) == 1 else ""


def _list_allowed(config: "Config") -> dict[str, str]:
    from elwood.features.telegram.channel import list_allowed
    from elwood.features.telegram.settings import TelegramSettings

    return list_allowed(config.get(TelegramSettings))


FEATURE = Feature(
    name="telegram",
    build=import_lazily("elwood.features.telegram.parts", "build"),
    settings=("elwood.features.telegram.settings:TelegramSettings",),
    checks=(import_lazily("elwood.features.telegram.parts", "check"),),
    set_up=import_lazily("elwood.features.telegram.parts", "set_up"),
    owner=_owner,
    is_channel=True,
    sessions="tg-",
    allowed=_list_allowed,
    is_group=import_lazily("elwood.features.telegram.channel", "is_group"),
    is_chat=import_lazily("elwood.features.telegram.channel", "is_chat"),
)
