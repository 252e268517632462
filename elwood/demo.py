"""The whole house, offline, in a fresh folder."""


def demo() -> int:
    """Talk on the console with the rule-based model; return the exit code."""
    raise NotImplementedError
