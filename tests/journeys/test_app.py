"""What the wiring decides by itself."""

import pytest

from elwood.agent.approvals.grants import CODE_LENGTH, normal
from elwood.agent.approvals.permissions import TYPED_LENGTH
from elwood.app.equipment import typed_code


@pytest.mark.parametrize("length", [CODE_LENGTH, TYPED_LENGTH])
def test_every_code_survives_being_typed(length: int) -> None:
    codes = {typed_code(length) for _ in range(300)}
    assert [code for code in codes if normal(code) != code or len(code) != length] == []
    assert len(codes) > 290
