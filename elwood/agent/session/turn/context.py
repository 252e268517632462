"""The system prompt: made from the workspace's documents, within a budget of tokens.

It holds nothing that changes by itself (no date, no memories): those travel as later messages, so
that it stays the same, byte for byte, while the documents do.
"""

from collections.abc import Mapping

import msgspec

from elwood.foundation.text.tokens import estimate, fit

# The documents in the order in which the model reads them: who it is, whom it serves, how it works.
NAMES = ("SOUL", "IDENTITY", "USER", "AGENTS", "TOOLS")
# If they do not all fit, these get their room first.
PRECEDENCE = ("SOUL", "AGENTS", "USER", "IDENTITY", "TOOLS")
# A document that is cut to less than this many tokens says nothing; it is left out.
WORTHWHILE = 50


class Documents(msgspec.Struct, frozen=True):
    """The workspace's documents at one moment: *texts* by name, without ``.md``.

    Those that do not exist are missing.  *notes* says what is wrong with them (cut, unreadable),
    in sentences for the model.
    """

    texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()


def assemble(documents: Documents, tools_note: str, budget: int) -> str:
    r"""Make the system prompt from *documents* and *tools_note*, of about *budget* tokens at most.

    What does not fit is cut, the least important document first, and the prompt says so.
    *tools_note* is what Elwood says about its tools; it is never cut.

    >>> print(assemble(Documents({"SOUL": "Be kind.", "USER": "Ada."}), "Tools are real.", 1000))
    <document name="SOUL.md">
    Be kind.
    </document>
    <BLANKLINE>
    <document name="USER.md">
    Ada.
    </document>
    <BLANKLINE>
    Tools are real.
    >>> print(assemble(Documents({"USER": "a few words here\n" * 100}), "", 60).splitlines()[-1])
    Note: USER.md is too long for this prompt and was cut; the rest is in the file.
    """
    texts, cut = _fitted(documents, budget - estimate(tools_note) if tools_note else budget)
    parts = [
        f'<document name="{name}.md">\n{text}\n</document>'
        for name in NAMES
        if (text := texts.get(name, "").strip())
    ]
    if tools_note.strip():
        parts.append(tools_note.strip())
    parts += [f"Note: {note}" for note in documents.notes]
    parts += [
        f"Note: {name}.md is too long for this prompt and was cut; the rest is in the file."
        for name in cut
    ]
    return "\n\n".join(parts)


def _fitted(documents: Documents, budget: int) -> tuple[dict[str, str], list[str]]:
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in documents.texts.values())
    if size <= budget:
        return dict(documents.texts), []  # a token has a byte at least: no need to count
    fitted: dict[str, str] = {}
    cut: list[str] = []
    left = float(budget)
    for name in PRECEDENCE:
        text = documents.texts.get(name, "")
        kept = fit(text, left)
        if kept != text:
            cut.append(name)
            if left < WORTHWHILE:
                continue
        left -= estimate(kept)
        fitted[name] = kept
    return fitted, cut
