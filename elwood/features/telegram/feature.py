"""Telegram, as the app sees it."""

from typing import ClassVar

import attrs

from elwood.agent.feature import Feature, imported
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import BadSetting, Section, between, is_url, secret, setting


def _is_user(id: int) -> None:
    if id <= 0:
        raise BadSetting(f"{id} is not the id of a user", "groups belong to telegram.groups")


def _is_group(id: int) -> None:
    if id >= 0:
        raise BadSetting(f"{id} is not the id of a group", "users belong to telegram.owners")


@attrs.frozen(kw_only=True)
class TelegramSettings:
    """The configuration of the channel, which is off without a *token*.

    *owners* are user ids with all rights, *groups* chat ids we take part in; *allowed_chats* are
    people who are let in like those with a code, and groups.  *poll* is the length of a long poll
    in seconds; the server knows at most 50.  *delete_webhook* allows us to remove a webhook that
    somebody set.  With *observe* the last messages of a group go along.
    """

    SECTION: ClassVar = Section("telegram", "The Telegram channel.")

    token: Secret | None = secret(
        "telegram-token",
        "ELWOOD_TELEGRAM_TOKEN",
        "TELEGRAM_BOT_TOKEN",
        help=". Without one the channel is off",
        example='"file:/run/secrets/telegram-token"',
    )
    owners: tuple[int, ...] = setting(
        (), help="ids of the users it belongs to", check=_is_user, example="[123456789]"
    )
    groups: tuple[int, ...] = setting(
        (), help="ids of the groups it answers in", check=_is_group, example="[-1001234567890]"
    )
    allowed_chats: tuple[int, ...] = setting(
        (),
        help="ids of users who may talk as if they had been let in by a code, and of groups",
        example="[987654321]",
    )
    base_url: str = setting("https://api.telegram.org", help="address of the Bot API", check=is_url)
    messages_per_second: int = setting(
        30, help="most messages to all chats", check=between(1, 1000)
    )
    poll: int = setting(50, help="seconds that Telegram may hold a poll open", check=between(0, 50))
    observe: bool = setting(
        False,
        help="let the model read what was said in a group before it was asked (privacy mode off)",
    )
    delete_webhook: bool = setting(False, help="remove a webhook, which keeps messages from us")
    rich_messages: bool = setting(
        False, help="let Telegram draw headings and tables; old apps may show nothing"
    )


FEATURE = Feature(
    name="telegram",
    build=imported("elwood.features.telegram.parts", "build"),
    settings=(TelegramSettings,),
    checks=(imported("elwood.features.telegram.parts", "check"),),
)
