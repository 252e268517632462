"""Telegram, as the app sees it."""

from elwood.agent.feature import Feature, imported
from elwood.features.telegram.settings import TelegramSettings

FEATURE = Feature(
    name="telegram",
    build=imported("elwood.features.telegram.parts", "build"),
    settings=(TelegramSettings,),
    checks=(imported("elwood.features.telegram.parts", "check"),),
)
