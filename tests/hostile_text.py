"""Texts that make careless code slow: runs, nests, alternations, and characters of all kinds."""

from collections.abc import Callable, Mapping

Shape = Callable[[int], str]


def run(unit: str) -> Shape:
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def nest(opening: str, closing: str) -> Shape:
    def shape(size: int) -> str:
        depth = size // (len(opening) + len(closing))
        return opening * depth + closing * depth

    return shape


def nested_list(size: int) -> str:
    """Return lists in lists, 40 deep, again and again."""
    block = "".join(f"{'  ' * depth}- a\n" for depth in range(40))
    return run(block)(size)


def growing_fences(size: int) -> str:
    return run("".join(f"{'`' * length}a " for length in range(1, 60)))(size)


def words(size: int) -> str:
    """Return distinct words."""
    return " ".join(f"w{number:x}" for number in range(size // 6))[:size]


def between(first: str, unit: str, last: str) -> Shape:
    return lambda size: first + run(unit)(size - len(first) - len(last)) + last


# Runs of one character.
RUNS = ("-", "—", "*", "_", "`", "[", "(", "<", ">", "#", "a", " ", "\n", "\t", "1", ".", "\\", '"')
# Runs of a few characters.
ALTERNATIONS = {
    "rules of a table": "|---",
    "rows of a table": "| a | b |\n",
    "words": "ab ",
    "emphasis that opens": "*a",
    "emphasis": "_a_",
    "lines": "a\n",
    "lines with blanks": " \n",
    "lines of Windows": "\r\n",
    "links that end": "](",
    "links": "[a](http://b.c)",
    "tags that open": "<a ",
    "entities": "&amp",
    "numbers of entities": "&#1",
    "sentences": "I have sent it. ",
    "quotations": "„a ",
    "fences": "```\na\n",
    "items": "- a\n",
    "numbered items": "1. ",
    "quotes": "> ",
    "addresses": "https://a.example/b?c=d&e=%20",
    "addresses of mail": "ann@example.com ",
    "base64": "QWxhZGRpbjpvcGVuIHNlc2FtZQ",
    "keys and values": "key=value ",
    "passwords": 'password = "',
    "tokens": "sk-ant-",
    "private keys": "-----BEGIN ",
    "commands": "a && $(b `c` 'd') | ",
    "JSON": '{"a":[1,',
    "escapes": "\\ud83d\\n",
    "Chinese": "漢",
    "Chinese words": "漢字 ",
    "emoji": "👩\u200d👧👍🏽",
    "combining marks": "e\u0301\u0302\u0303",
    "marks alone": "\u0301",
    "right to left": "\u202eא",
    "zero width": "\u200b",
    "control characters": "\0\x1b[",
    "half characters": "\ud800",
}
SHAPES: Mapping[str, Shape] = {
    **{f"run of {char!r}": run(char) for char in RUNS},
    **{name: run(unit) for name, unit in ALTERNATIONS.items()},
    "nested brackets": nest("[", "]"),
    "nested links": nest("[a](", ")"),
    "nested objects": nest('{"a":', "}"),
    "nested tags": nest("<ul><li>", "</li></ul>"),
    "nested emphasis": nest("*a **b ", "** *"),
    "nested quotes": nest("> ", "\n"),
    "nested lists": nested_list,
    "growing fences": growing_fences,
    "different words": words,
    "a long word": between("", "a", "!"),
    "a long entity": between("é &#", "1", ";"),
    "a long number": between("a = ", "9", " b"),
    "blanks at the end": between("a", " ", "b"),
    "an open code span": between("`", "a ", ""),
    "a heredoc": between("cat <<a\n", "b\n", "a"),
}
