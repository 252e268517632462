"""Stored screens: text as a terminal shows it, reviewed by a person before the commit.

``ELWOOD_SCREENS=new`` writes them again.
"""

import os
from pathlib import Path

FOLDER = Path(__file__).parent


def assert_screen(name: str, text: str, folder: Path = FOLDER) -> None:
    """Compare *text* with the stored screen *name*."""
    path = folder / f"{name}.txt"
    if os.environ.get("ELWOOD_SCREENS") == "new":
        path.write_text(text)
    assert text == path.read_text(), f"{path}: look at it, and keep it with ELWOOD_SCREENS=new"
