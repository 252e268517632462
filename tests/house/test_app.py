"""What the wiring decides by itself."""

from elwood.app import pairing_code
from elwood.core.grants import CODE_LENGTH, normal


def test_every_pairing_code_survives_being_typed() -> None:
    codes = {pairing_code() for _ in range(300)}
    assert [code for code in codes if normal(code) != code or len(code) != CODE_LENGTH] == []
    assert len(codes) == 300
