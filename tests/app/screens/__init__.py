"""Kept screens: text as a terminal shows it, looked at by somebody before it was committed.

``ELWOOD_SCREENS=new`` makes them anew.
"""

import os
from pathlib import Path

FOLDER = Path(__file__).parent


def assert_screen(name: str, text: str, folder: Path = FOLDER) -> None:
    """Compare *text* with the screen that was kept as *name*."""
    path = folder / f"{name}.txt"
    if os.environ.get("ELWOOD_SCREENS") == "new":
        path.write_text(text)
    assert text == path.read_text(), f"{path}: look at it, and keep it with ELWOOD_SCREENS=new"
