"""How the Bot API says no, and what then helps."""

from typing import Literal

import msgspec

from elwood.foundation.net.http import Interrupted, Unreachable


class TelegramError(Exception):
    """The Bot API said no to *method*, or answered nonsense.

    *code* is its error code or the HTTP status, *description* its words; *retry_after* (seconds)
    and *migrate_to* (chat id) are what it asks for.  Holds neither URL nor token.
    """

    def __init__(
        self,
        method: str,
        code: int,
        description: str,
        *,
        retry_after: float | None = None,
        migrate_to: int | None = None,
    ) -> None:
        super().__init__(f"{method}: {code} {description}")
        self.method = method
        self.code = code
        self.description = description
        self.retry_after = retry_after
        self.migrate_to = migrate_to

    def says(self, *phrases: str) -> bool:
        """Tell whether the description holds one of *phrases*, in any case."""
        said = self.description.casefold()
        return any(phrase.casefold() in said for phrase in phrases)


# How a call fails: it was refused, it was surely not sent, or it may have been.
Failure = TelegramError | Unreachable | Interrupted
FAILURES = (TelegramError, Unreachable, Interrupted)

Remedy = Literal[
    "not sent",  # nobody was reached
    "wait",  # flood control: not before retry_after
    "new chat",  # the group has another id now
    "no topic",  # the topic is gone; the chat is not
    "no reply",  # the message replied to is gone
    "split",  # too long after all
    "plain",  # something about the formatting: the words must arrive
    "nobody",  # it can never arrive there
    "nothing",  # there is nothing in it to send
    "no access",  # the token is refused, for every chat
    "unknown",  # it may have arrived
]

_GONE = (
    "chat not found",
    "peer_id_invalid",
    "have no access",
    "no rights to send",
    "not enough rights",
    "chat_write_forbidden",
    "user not found",
    "group is deactivated",
)


def remedy(error: Failure) -> Remedy:
    """Say what may help after *error* of a send.

    >>> remedy(TelegramError("sendMessage", 403, "Forbidden: bot was blocked by the user"))
    'nobody'
    >>> remedy(TelegramError("sendMessage", 400, "Bad Request: can't parse entities: byte 3"))
    'plain'
    """
    if isinstance(error, Unreachable):
        return "not sent"
    if isinstance(error, Interrupted):
        return "unknown"
    if error.migrate_to is not None:
        return "new chat"
    match error.code:
        case 429:
            return "wait"
        case 401 | 404:
            return "no access"
        case 403:
            return "nobody"
        case 413:
            return "split"
        case 400 if error.says("message thread not found", "topic_closed", "topic_deleted"):
            return "no topic"
        case 400 if error.says("replied not found", "reply message not found"):
            return "no reply"
        case 400 if error.says("too long"):
            return "split"
        case 400 if error.says("text is empty"):
            return "nothing"
        case 400 if error.says(*_GONE):
            return "nobody"
        case code if 400 <= code < 500:
            return "plain"
    return "unknown"


class SendOptions(msgspec.Struct):
    """How a message is to be sent, after what was learned from refusals."""

    chat: int
    topic: int | None
    reply_to: int | None
    plain: bool = False
    learned: set[Remedy] = msgspec.field(default_factory=set)

    def adapt(self, cure: Remedy, error: Failure) -> bool:
        """Change them by *cure*; False if that cannot help, or has not helped already."""
        if cure in self.learned:
            return False
        self.learned.add(cure)
        match cure:
            case "new chat" if isinstance(error, TelegramError) and error.migrate_to is not None:
                self.chat = error.migrate_to
            case "no topic":
                self.topic = None
            case "no reply":
                self.reply_to = None
            case "plain":
                self.plain = True
            case "split":
                pass  # the text is the caller's
            case _:
                return False
        return True


def explain(error: Failure) -> str:
    """Say what is wrong and what to do, for the operator; the same words for the same fault.

    >>> explain(Unreachable("TLS failed: certificate is not yet valid"))
    'TLS failed: certificate is not yet valid: check the clock of this machine'
    """
    match error:
        case TelegramError(code=401 | 404):
            return (
                f"the token was refused ({error.code} {error.description}): "
                "check telegram.token, or ask @BotFather for a new one"
            )
        case TelegramError():
            return str(error)
        case Unreachable() | Interrupted():
            # A clock wrong by days makes every certificate invalid (TG-37).
            if any(words in error.why for words in ("expired", "not yet valid")):
                return f"{error.why}: check the clock of this machine"
            return error.why
