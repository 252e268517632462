"""What bounds one turn, whatever it is about."""

import attrs


@attrs.frozen(kw_only=True)
class TurnSettings:
    """Limits of a turn: model responses with calls, tools, tokens of context, and seconds.

    *model_deadline* covers everything that one response takes: waits, retries, other models.  It
    is a little less than the *deadline*, so that a provider's trouble is told by its name.
    """

    max_rounds: int = 20
    deadline: float = 900.0
    model_deadline: float = 840.0
    tool_deadline: float = 660.0
    max_tools: int = 128
    context_tokens: int = 150_000
