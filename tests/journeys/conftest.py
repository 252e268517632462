"""A home for each journey, in virtual time."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.journeys.home import Home, home


@pytest.fixture
async def h(tmp_path: Path, virtual_time: None) -> AsyncIterator[Home]:
    """A home where no process has run yet; time jumps as soon as everything is idle."""
    async with home(tmp_path) as made:
        yield made
