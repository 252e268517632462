"""What the model may do: the contract of a tool."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import attrs
import msgspec

from elwood.core.conversation import ToolSpec
from elwood.core.session import Effect
from elwood.runtime import Blocking
from elwood.store.files import Root
from elwood.wire.search import Search
from elwood.wire.web import Web


class ToolFailure(Exception):
    """The tool could not do it; the text is for the model, which may try something else.

    *untrusted* says that strangers had a say in the text, *origin* who.
    """

    def __init__(self, text: str, *, untrusted: bool = False, origin: str = "") -> None:
        super().__init__(text)
        self.untrusted = untrusted
        self.origin = origin


@attrs.frozen
class Output:
    """What a tool found, with its labels (security.md §5).

    *untrusted* text was written by strangers, *private* text is not for them; *origin* says in a
    few words where it is from.
    """

    text: str
    untrusted: bool = False
    private: bool = False
    origin: str = ""


def _root(hands: "Hands") -> Root:
    return Root(hands.workspace)


@attrs.frozen
class Hands:
    """What a tool is given to act with.  *workspace* is the folder files are confined to.

    *root* is that folder, held open from its first use on: make one Hands for the whole house.
    Without *web* or *search* there is none of it.
    """

    workspace: Path
    blocking: Blocking
    web: Web | None = None
    search: Search | None = None
    root: Root = attrs.field(
        init=False, eq=False, repr=False, default=attrs.Factory(_root, takes_self=True)
    )


@attrs.frozen
class Tool:
    """Something the model may do.

    *input* is at once the schema that the model sees, the check at the gate, and the type that
    *run* gets; text alone is trusted and public.  *effect* says what a repeat would do
    (reliability.md §1.1); when in doubt, once.  *timeout* is in seconds, *limit* the characters of
    a result.  *target* says in a few words what a call is about, for receipts.
    """

    name: str
    description: str
    input: type[msgspec.Struct]
    run: Callable[[Any, Hands], Awaitable[str | Output]]
    risk: Literal["read", "write", "destructive"] = "write"
    effect: Effect = "once"
    timeout: float = 60.0
    limit: int = 50_000
    target: Callable[[Any], str] = str

    @property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        (schema,), components = msgspec.json.schema_components(
            [self.input], ref_template="#/$defs/{name}"
        )
        name = schema["$ref"].rsplit("/", 1)[-1]
        body = components.pop(name)
        body.pop("title", None)
        if components:
            body["$defs"] = components
        return ToolSpec(self.name, self.description, msgspec.Raw(msgspec.json.encode(body)))
