"""What stands before every conversation: the documents and the tools, as they are now."""

from collections.abc import Callable, Sequence

from elwood.core.context import Documents, assemble
from elwood.core.conversation import Prompt
from elwood.store.workspace import Workspace
from elwood.tools import Tool

NOTE = (
    "What your tools did is recorded and shown to the reader below your answer. "
    "Never claim to have done what no tool result confirms."
)


class Prompting:
    """Makes the prompt within *budget* tokens; the same object while nothing has changed.

    *strip* takes secrets out: somebody may have written one into a document.
    """

    def __init__(
        self,
        workspace: Workspace,
        tools: Sequence[Tool],
        budget: int,
        strip: Callable[[str], str],
    ) -> None:
        self._workspace = workspace
        self._specs = tuple(tool.spec for tool in tools)
        self._budget = budget
        self._strip = strip
        self._made: tuple[Documents, Prompt] | None = None

    async def __call__(self) -> Prompt:
        """Look at the documents, and make the prompt anew if they have changed."""
        documents = await self._workspace.documents()
        if self._made is None or self._made[0] is not documents:
            text = self._strip(assemble(documents, NOTE, self._budget))
            self._made = (documents, Prompt(text, self._specs))
        return self._made[1]
