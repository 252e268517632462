"""The workspace documents; a stand-in until the room is furnished."""

from collections.abc import Mapping


def default_documents() -> Mapping[str, str]:
    """Return the first documents, by their paths in the workspace."""
    return {"SOUL.md": "# Soul\n"}
