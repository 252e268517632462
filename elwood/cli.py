"""The command ``elwood``."""


def main() -> int:
    """Run the command line."""
    return 0
