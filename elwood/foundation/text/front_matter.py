"""Parse the YAML front matter of a Markdown file: every value is text, a list, or a map.

PyYAML takes 10 ms to import, so it is imported only when needed.
"""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from yaml.nodes import Node

# Characters and lines of a front matter; the longest known ones have a hundredth of that.
MAX_LENGTH, MAX_LINES = 32_000, 500
# Levels of nested maps and lists.
MAX_DEPTH = 8

FrontMatterValue = str | tuple["FrontMatterValue", ...] | Mapping[str, "FrontMatterValue"]

_FENCE = re.compile(r"-{3}[ \t]*")
# A field whose value may be unquoted text that needs quotes, with its continuation lines.
_PLAIN = re.compile(
    r"^([\w.$-][\w.$ /-]{0,99}:[ \t]+)(?![|>'{].*$)(\S.*(?:\n[ \t]+\S.*)*)", re.MULTILINE
)


class FrontMatterError(Exception):
    """The front matter is invalid; the text is for its author."""


class FrontMatter(msgspec.Struct, frozen=True):
    """The *fields* of a front matter, and the *body* after it."""

    fields: Mapping[str, FrontMatterValue]
    body: str


def read_front_matter(text: str) -> FrontMatter:
    r"""Parse *text*.  An unquoted value with a colon is read as if it were quoted.

    Aliases are refused; anchors, tags and types are ignored.  Raises FrontMatterError.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if not _FENCE.fullmatch(lines[0]):
        raise FrontMatterError("it does not begin with the line ---")
    end = next((n for n, line in enumerate(lines[1:], 1) if _FENCE.fullmatch(line)), None)
    if end is None:
        raise FrontMatterError("the front matter has no closing line ---")
    head, body = "\n".join(lines[1:end]), "\n".join(lines[end + 1 :])
    if end > MAX_LINES or len(head) > MAX_LENGTH:
        why = f"the front matter has more than {MAX_LINES} lines or {MAX_LENGTH} characters"
        raise FrontMatterError(why)
    try:
        return FrontMatter(_fields(head), body)
    except FrontMatterError:
        return FrontMatter(_fields(_PLAIN.sub(_quote_value, head)), body)


def _fields(head: str) -> Mapping[str, FrontMatterValue]:
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: "Node | None", index: int) -> "Node | None":
            if self.check_event(yaml.AliasEvent):
                raise FrontMatterError("the front matter has an alias")
            return super().compose_node(parent, index)

    try:
        node = yaml.compose(head, Loader)
    except (yaml.YAMLError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        raise FrontMatterError(f"the front matter cannot be read: {why}") from error
    except RecursionError as error:
        raise FrontMatterError("the front matter is nested too deeplyly") from error
    if node is None:
        return {}
    value = _value(node, MAX_DEPTH)
    if not isinstance(value, Mapping):
        raise FrontMatterError("the front matter has no key followed by a colon")
    return value


def _value(node: "Node", depth: int) -> FrontMatterValue:
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    if depth < 0:
        raise FrontMatterError(f"the front matter is nested more than {MAX_DEPTH} levels deep")
    match node:
        case ScalarNode():
            is_null = node.style is None and node.value in ("~", "null")
            return "" if is_null else str(node.value).strip("\n")
        case SequenceNode():
            return tuple(_value(item, depth - 1) for item in node.value)
        case MappingNode():
            found: dict[str, FrontMatterValue] = {}
            for key, value in node.value:
                name = _value(key, depth - 1)
                if not isinstance(name, str) or name in found:
                    raise FrontMatterError("the front matter has a duplicate key, or no key")
                found[name] = _value(value, depth - 1)
            return found
    raise AssertionError(node)


def _quote_value(field: re.Match[str]) -> str:
    value = " ".join(map(str.strip, field[2].split("\n")))
    return field[1] + json.dumps(value, ensure_ascii=False)
