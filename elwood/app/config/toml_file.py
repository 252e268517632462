"""Read a TOML file, and report its faults with the place and the remedy, without secrets."""

import re
import tomllib
from pathlib import Path

import msgspec
import re2

from elwood.foundation.command_line import MISCONFIGURED, CliFailure
from elwood.foundation.text.lines import clip

Tree = dict[str, object]
# Bytes of a configuration file.
LARGEST = 1_048_576
# Depth of tables and lists, and parts of a dotted key: tomllib needs a minute for 100,000 parts.
DEEPEST = 100
_LONG_KEY = re2.compile(rf"(?:[\w\"'-]+[ \t]*\.[ \t]*){{{DEEPEST}}}")
# Characters of a wrong value that are shown to the operator.
SHOWN = 60
TOO_DEEP, RIGHT_FILE = "is nested too deeply", "check that it is the right file"


class Problem(msgspec.Struct, frozen=True):
    """One fault of the configuration."""

    complaint: str  # place and fault
    remedy: str  # how to correct it

    def __str__(self) -> str:
        return f"{self.complaint}; {self.remedy}"


class ConfigErrors(CliFailure):
    """The configuration is invalid; *problems* lists all faults, without secrets."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)), MISCONFIGURED)
        self.problems = problems


def read_toml(path: Path) -> Tree:
    """Read the file.  Raises ConfigErrors."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise _make_error(path, "there is no such file", "run: elwood init") from None
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
        remedy = "choose a file that the user running Elwood can read"
        raise _make_error(path, why, remedy) from error
    return parse_toml(path, content)


def _make_error(path: Path, what: str, remedy: str) -> ConfigErrors:
    return ConfigErrors([Problem(f"{path}: {what}", remedy)])


def parse_toml(path: Path, content: bytes) -> Tree:
    """Parse the *content* of the file *path*.  Raises ConfigErrors."""
    if len(content) > LARGEST:
        raise _make_error(path, f"is larger than {LARGEST} bytes", RIGHT_FILE)
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")  # Windows editors add a BOM
        if _LONG_KEY.search(text):
            raise _make_error(path, f"has a key of more than {DEEPEST} parts", RIGHT_FILE)
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        # `from None`: the error holds the bytes, which may contain a secret.
        raise _make_error(path, f"line {line} is not UTF-8 text", "save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        if not str(error).startswith(("Cannot", "Duplicate")):
            raise _make_error(path, f"not TOML: {error}", "see https://toml.io") from None
        place, lines = re.search(r"\(at line ([0-9]+)", str(error)), text.splitlines()
        number = int(place[1]) if place else len(lines)
        # Only the key is shown: the value may be a secret.
        key = clip(lines[number - 1].partition("=")[0].strip(), SHOWN)
        what = f"line {number}: {key} is written twice, or is both a table and a value"
        raise _make_error(path, what, "keep one of them") from None
    except ValueError:  # of `int`
        raise _make_error(path, "has a number of more than 4,300 digits", RIGHT_FILE) from None
    except RecursionError:
        raise _make_error(path, TOO_DEEP, RIGHT_FILE) from None
