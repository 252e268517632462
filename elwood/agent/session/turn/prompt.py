"""What stands before every conversation: documents, parts of features, tools, as they are now."""

import math
from collections.abc import Sequence

import trio

from elwood.agent.conversation.message import Prompt
from elwood.agent.session.extension import PromptPart
from elwood.agent.session.turn.context import Documents, assemble
from elwood.agent.session.turn.workspace import Workspace
from elwood.agent.tools.tool import Tool
from elwood.foundation.secrets.redaction import Redactor

NOTE = (
    "What your tools did is recorded and shown to the reader below your answer. "
    "Never claim to have done what no tool result confirms."
)
# Seconds for which documents and skills are not looked at again: nobody saves one and sends a
# message sooner, and conversations that begin turns together need one look.
LOOK_EVERY = 1.0


class SystemPrompt:
    """Makes the prompt within *budget* tokens; the same object while nothing has changed.

    *redactor* takes secrets out: somebody may have written one into a document.  After the
    documents come *parts*.
    """

    def __init__(
        self,
        workspace: Workspace,
        tools: Sequence[Tool],
        budget: int,
        redactor: Redactor,
        parts: Sequence[PromptPart] = (),
    ) -> None:
        self._workspace = workspace
        self._specs = tuple(tool.spec for tool in tools)
        self._budget = budget
        self._redactor = redactor
        self._parts = parts
        self._made: tuple[Documents, list[str], Prompt] | None = None
        self._looking = trio.Lock()
        self._looked = -math.inf

    async def now(self) -> Prompt:
        """Give the prompt, as documents and parts were at most `LOOK_EVERY` seconds ago."""
        async with self._looking:
            if self._made is None or trio.current_time() >= self._looked + LOOK_EVERY:
                documents = await self._workspace.documents()
                texts = [await part.text(self._budget) for part in self._parts]
                if self._made is None or self._made[0] is not documents or self._made[1] != texts:
                    self._made = documents, texts, self._make(documents, texts)
                self._looked = trio.current_time()
            return self._made[2]

    def _make(self, documents: Documents, texts: Sequence[str]) -> Prompt:
        note = "\n\n".join(filter(None, (NOTE, *texts)))
        return Prompt(self._redactor(assemble(documents, note, self._budget)), self._specs)
