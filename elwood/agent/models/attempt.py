"""What is known of an ask while it looks for a model that answers it."""

import attrs
import trio

from elwood.agent.models.messages import Complete
from elwood.agent.models.routing import Fault, Reaction, react
from elwood.agent.models.usage_book import Caller


@attrs.define
class UnderWay:
    """An *ask* on its way: the *model* asked now, *since* when, and the *rest* to try."""

    ask: Complete
    model: str
    rest: tuple[str, ...]
    since: float = attrs.field(factory=trio.current_time)

    @property
    def caller(self) -> Caller:
        """For whom it is asked."""
        return Caller(self.ask.session, self.ask.job, self.ask.purse)

    @property
    def elapsed(self) -> float:
        """Seconds that the present model has been tried for."""
        return trio.current_time() - self.since

    def move_on(self, model: str) -> None:
        """Try *model* next."""
        self.rest = self.rest[self.rest.index(model) + 1 :]
        self.model = model
        self.since = trio.current_time()

    def react(self, fault: Fault, *, attempt: int = 1, jitter: float = 0.0) -> Reaction:
        """Decide what is done about *fault*, the *attempt*-th of its kind."""
        return react(
            fault,
            model=self.model,
            rest=self.rest,
            attempt=attempt,
            elapsed=self.elapsed,
            jitter=jitter,
            left=self.ask.until - trio.current_time(),
        )
