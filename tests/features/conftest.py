"""What tests of several features share."""

import pytest
from trio.testing import MockClock

from tests.fake_http import JUMP


@pytest.fixture
def jumping_clock(mock_clock: MockClock) -> MockClock:
    """A clock that jumps when all wait, also with real sockets between them."""
    mock_clock.autojump_threshold = JUMP
    return mock_clock
