"""The tools that Elwood brings along."""

from elwood.tools import Tool
from elwood.tools.files import LIST_FILES, READ_FILE


def builtin() -> tuple[Tool, ...]:
    """List them, in the order in which the model sees them: it must not change by itself."""
    return (LIST_FILES, READ_FILE)
