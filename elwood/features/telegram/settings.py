from pathlib import Path
from typing import ClassVar, Literal

import attrs

from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import BadSetting, Section, between, is_url, secret, setting


def _check_user(id: int) -> None:
    if id <= 0:
        raise BadSetting(f"{id} is not a user id", "list groups in telegram.groups")


def _check_group(id: int) -> None:
    if id >= 0:
        raise BadSetting(f"{id} is not a group id", "list users in telegram.owners")


def _check_address(text: str) -> None:
    host, _, port = text.rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise BadSetting(f"{text!r} is not an address to listen on", "write it like 127.0.0.1:8090")


@attrs.frozen(kw_only=True)
class TelegramSettings:
    """The configuration of the channel, which is off without a token."""

    SECTION: ClassVar = Section("telegram", "The Telegram channel.")

    token: Secret | None = secret(
        "telegram-token",
        "ELWOOD_TELEGRAM_TOKEN",
        "TELEGRAM_BOT_TOKEN",
        help=". Without a token the channel is off",
        example='"file:/run/secrets/telegram-token"',
    )
    owners: tuple[int, ...] = setting(
        (), help="user ids of its owners", check=_check_user, example="[123456789]"
    )
    groups: tuple[int, ...] = setting(
        (),
        help="ids of the groups in which it answers",
        check=_check_group,
        example="[-1001234567890]",
    )
    allowed_chats: tuple[int, ...] = setting(
        (),
        help="ids of users and groups that may talk to it without a pairing code",
        example="[987654321]",
    )
    base_url: str = setting("https://api.telegram.org", help="address of the Bot API", check=is_url)
    messages_per_second: int = setting(
        30, help="maximum messages per second to all chats together", check=between(1, 1000)
    )
    poll: int = setting(50, help="seconds that a poll may wait for updates", check=between(0, 50))
    pairing: Literal["code", "off"] = setting(
        "code", help="code: a stranger gets a code, with which you can let them in; off: no answer"
    )
    observe: bool = setting(
        False,
        help="let the model read group messages sent before it is mentioned (privacy mode off)",
    )
    delete_webhook: bool = setting(
        False, help="remove a webhook that keeps the messages from Elwood"
    )
    webhook_url: str = setting(
        "",
        help="https address that your web server forwards to `webhook_listen`; else Elwood polls",
        check=is_url,
        example='"https://example.org/elwood"',
    )
    webhook_listen: str = setting(
        "127.0.0.1:8090", help="host:port for requests to `webhook_url`", check=_check_address
    )
    local_files: Path | None = setting(
        None,
        help="folder where your own Bot API server (`--local`, at `base_url`) stores files",
        example='"/var/lib/telegram-bot-api"',
    )
    rich_messages: bool = setting(
        False, help="let Telegram format headings and tables; old apps may show an empty message"
    )
