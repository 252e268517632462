"""What a request costs in tokens: guessed before it is sent, and learned from what was counted."""

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from elwood.agent.conversation.message import (
    Assistant,
    Human,
    Message,
    Notice,
    Prompt,
    Results,
    Usage,
)
from elwood.foundation.text.tokens import estimate


def rough(prompt: Prompt, messages: Iterable[Message], said: str) -> Usage:
    """Guess the usage of a call that broke off, by characters only: cheap for any history.

    >>> rough(Prompt("x" * 30), (), "six chars")
    Usage(input=10, output=3, cache_read=0, cache_write=0, cache_write_1h=0, estimated=True)
    """
    size = len(prompt.system) + sum(len(bytes(t.schema)) + len(t.description) for t in prompt.tools)
    for message in messages:
        match message:
            case Human(text) | Notice(text):
                size += len(text)
            case Results(results):
                size += sum(len(result.text) for result in results)
            case Assistant():
                size += len(bytes(message.native))
    return Usage(size // 3, len(said) // 3, estimated=True)


def estimate_prompt(prompt: Prompt) -> int:
    """Estimate what stands before every message.

    >>> estimate_prompt(Prompt("Be good."))
    3
    """
    texts = [prompt.system]
    for tool in prompt.tools:
        texts += [tool.name, tool.description, bytes(tool.schema).decode()]
    return sum(map(_estimate_again, texts))


@lru_cache(maxsize=256)  # every conversation begins with the same prompt
def _estimate_again(text: str) -> int:
    return estimate(text)


# Estimated tokens from which a request says something about the ratio: what a service puts around
# each request is little then.
ENOUGH = 500
# The weight of the newest request: about the last ten count.
WEIGHT = 0.2
# What a tokenizer can be: beyond it, the service counts something else.
LEAST, MOST = 0.5, 3.0
# Models of one conversation that are remembered.
MAX_MODELS = 20


class Calibration(msgspec.Struct):
    """How many tokens each model counts for an estimated one; *model* answered last."""

    ratios: dict[str, float] = {}
    model: str = ""

    @property
    def ratio(self) -> float:
        """The ratio of the model that answered last: it is likely to be asked next."""
        return self.ratios.get(self.model, 1.0)

    def learn(self, model: str, estimated: int, usage: Usage) -> None:
        """Take into account what *model* counted for a request of *estimated* tokens.

        >>> calibration = Calibration()
        >>> calibration.learn("m", 1000, Usage(input=200, cache_read=1000))
        >>> calibration.learn("m", 1000, Usage(input=1400))
        >>> round(calibration.ratio, 2)
        1.24
        """
        self.model = model
        counted = usage.input + usage.cache_read + usage.cache_write
        if usage.estimated or not counted or estimated < ENOUGH:
            return
        seen = min(MOST, max(LEAST, counted / estimated))
        before = self.ratios.pop(model, seen)
        self.ratios[model] = before + WEIGHT * (seen - before)
        while len(self.ratios) > MAX_MODELS:
            del self.ratios[next(iter(self.ratios))]
