"""What a model provider is to the rest of Elwood, and how it fails."""

from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import msgspec

from elwood.agent.conversation.message import Completion, Message, Prompt
from elwood.agent.models.routing import FailureKind as FailureKind
from elwood.agent.models.routing import ListedModel

HistoryProblem = Literal["pairing", "thinking", "image", "tools", "other"]


class ModelFailure(Exception):
    """The provider did not give a whole response; its fault or the world's unless *kind* says so.

    *retry_after* is what it asked for, in seconds; *should_retry* its explicit word on retrying
    (``x-should-retry``).  *detail* is safe to show: no key, no URL with one.
    """

    def __init__(
        self,
        provider: str,
        kind: FailureKind,
        detail: str,
        *,
        retry_after: float | None = None,
        should_retry: bool | None = None,
        problem: HistoryProblem = "other",
    ) -> None:
        super().__init__(f"{provider}: {detail}")
        self.provider = provider
        self.kind = kind
        self.detail = detail
        self.retry_after = retry_after
        self.should_retry = should_retry
        self.problem = problem


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One response wanted of *model* (the provider's own name for it)."""

    model: str
    prompt: Prompt
    messages: tuple[Message, ...]
    max_tokens: int
    no_thinking: bool = False


class Provider(Protocol):
    """Speaks one API.  *codec* names the form of the native content it writes and can replay."""

    codec: str

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Completion:
        """Return one whole response, or raise ModelFailure.

        *on_text* is called with the whole text so far each time there is more, and first with
        none, when the response has begun; it must not wait.
        """


@runtime_checkable
class Catalogued(Protocol):
    """A provider that can list its models."""

    async def offers(self) -> tuple[ListedModel, ...]:
        """Return what it has, or raise ModelFailure."""
