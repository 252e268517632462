"""What can be set about the Telegram channel; free of Trio, for commands that only look."""

import attrs

from elwood.foundation.secrets.redaction import Secret


@attrs.frozen(kw_only=True)
class TelegramSettings:
    """The configuration of the channel, which is off without a *token*.

    *owners* are user ids with all rights, *groups* chat ids we take part in.  *poll* is the
    length of a long poll in seconds; the server knows at most 50.  *delete_webhook* allows us to
    remove a webhook that somebody set (TG-02).
    """

    token: Secret | None = None
    owners: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    base_url: str = "https://api.telegram.org"
    messages_per_second: int = 25
    poll: int = 50
    delete_webhook: bool = False
