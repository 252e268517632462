"""What the wiring decides by itself."""

import pytest

from elwood.agent.approvals.state import CODE_LENGTH, TYPED_LENGTH
from elwood.foundation.environment import typed_code
from elwood.foundation.text.characters import normal_code


@pytest.mark.parametrize("length", [CODE_LENGTH, TYPED_LENGTH])
def test_every_code_survives_being_typed(length: int) -> None:
    codes = {typed_code(length) for _ in range(300)}
    assert [code for code in codes if normal_code(code) != code or len(code) != length] == []
    assert len(codes) > 290
