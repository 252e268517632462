"""Codes that people type: digits and capitals of which none is taken for another."""

# Without 0 O 1 I L, and U for V.
CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"


def normal_code(code: str) -> str:
    """Undo what people do to a code when they type it.

    >>> normal_code(" abcd-2345 ")
    'ABCD2345'
    """
    return "".join(c for c in code.upper() if c in CODE_ALPHABET)
