"""What a turn does about one response of the model: a table, so that every case is decided.

Sources: the rows of llm_failures.jsonl (named in brackets) and the stop reasons of the Messages
API.  The one rule above all: calls run only after `tools`.
"""

import msgspec

from elwood.agent.conversation.message import Assistant, Completion, Text

# How often a cut answer is continued (LLM-16) and a paused one resumed (LLM-19).
MAX_CONTINUED = 2
MAX_PAUSED = 5


class TurnAttempts(msgspec.Struct, frozen=True):
    """What has been tried already in this turn."""

    continued: int = 0
    paused: int = 0
    enlarged: bool = False
    nudged: bool = False
    used_tools: bool = False


class RunCalls(msgspec.Struct, frozen=True):
    """Keep the response and run its calls."""


class Finish(msgspec.Struct, frozen=True):
    """Keep the response; the turn is answered with *text*."""

    text: str


class Continue(msgspec.Struct, frozen=True):
    """Keep the response, tell the model *notice*, and ask on (LLM-16)."""

    notice: str


class Resend(msgspec.Struct, frozen=True):
    """Keep the response and send everything back unchanged (LLM-19, LLM-20)."""


class Enlarge(msgspec.Struct, frozen=True):
    """Drop the response and ask once more with twice the token limit (LLM-15)."""


class Nudge(msgspec.Struct, frozen=True):
    """Drop the empty response, tell the model *notice*, and ask once more (LLM-22)."""

    notice: str


class Shrink(msgspec.Struct, frozen=True):
    """Drop the response, shorten the history, and ask once more (LLM-17)."""


class Decline(msgspec.Struct, frozen=True):
    """The model refused: drop the turn from the history and say *text* (LLM-18)."""

    text: str


class Fail(msgspec.Struct, frozen=True):
    """Drop the response and say *text*."""

    text: str


Reaction = RunCalls | Finish | Continue | Resend | Enlarge | Nudge | Shrink | Decline | Fail

CONTINUE = "Your answer was cut off by the length limit. Continue exactly where it stopped."
NUDGE = "You ended without any text. Say in a sentence or two what came of it."
CUT_MARK = "\n\n[cut off: the answer was too long]"


def react(completion: Completion, tally: TurnAttempts) -> Reaction:
    """Decide what to do about a whole response.

    >>> from elwood.agent.conversation.message import Usage
    >>> said = Assistant((Text("hi"),), "x", "m", msgspec.Raw(b"[]"))
    >>> react(Completion(said, "end", Usage()), TurnAttempts())
    Finish(text='hi')
    >>> react(Completion(said, "cut", Usage()), TurnAttempts(continued=2)).text
    'hi\\n\\n[cut off: the answer was too long]'
    """
    message = completion.message
    text = message.text.strip()
    match completion.stop:
        case "tools":
            return RunCalls()
        case "cut":
            return _react_to_cut(message, text, tally)
        case "window":
            return Shrink()
        case "refused":
            why = f" ({completion.detail})" if completion.detail else ""
            return Decline(f"The model declined to answer this{why}.")
        case "paused":
            if tally.paused < MAX_PAUSED:
                return Resend()
            return Fail("The model paused its work again and again and did not finish.")
        case "end" | "unknown":
            if text:
                return Finish(text)
            if tally.used_tools and not tally.nudged:
                return Nudge(NUDGE)
            return Fail("The model gave no text.")


def _react_to_cut(message: Assistant, text: str, tally: TurnAttempts) -> Reaction:
    if message.calls:
        if not tally.enlarged:
            return Enlarge()
        return Fail("The model's tool call was longer than the limit allows; nothing was run.")
    if not text:
        return Fail("The model used its whole length limit without an answer.")
    if tally.continued < MAX_CONTINUED:
        return Continue(CONTINUE)
    return Finish(message.text + CUT_MARK)


def without_calls(message: Assistant) -> Assistant:
    """Drop the calls of a response after which none may run; its native form goes with them."""
    if not message.calls:
        return message
    blocks = tuple(block for block in message.blocks if isinstance(block, Text))
    return Assistant(blocks, "", message.model, msgspec.Raw(b"null"))
