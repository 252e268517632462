"""Which elements are open at a place in HTML, though half of the end tags are missing or wrong.

A simplification of what the standard says about implied and mismatched ends, in constant time per
tag: it matters where hidden text ends, not what a browser would make of the layout.
"""

from collections import defaultdict
from collections.abc import Collection


def tags(names: str) -> frozenset[str]:
    """Read a list of names of elements.

    >>> sorted(tags("p div"))
    ['div', 'p']
    """
    return frozenset(names.split())


# Elements that hold nothing and have no end tag.
VOID = tags(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source "
    "track wbr"
)
# Elements that begin a new line; an inline end tag does not reach through them.
BLOCKS = tags(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main "
    "menu nav ol optgroup option p pre search section summary table tbody td tfoot th thead tr ul "
    "xmp"
)
# Elements within a line whose end tag ends all that was left open in them.
_CONTAINERS = tags(
    "applet audio button canvas datalist iframe map math noscript object select svg template video"
)
# Elements that go on in what follows if they are closed by anything but their own end tag.
FORMATTING = tags("a b big code em font i nobr s small strike strong tt u")
# Through these no end tag from inside reaches.
_WALLS = tags("button caption html object table td template th")
_CELLS = tags("table tr tbody thead tfoot")
# Elements that end where one of their kind begins, and what they may stand in.
_SIBLINGS = {
    "li": (("li",), ("ul", "ol", "menu", "dir")),
    "dt": (("dt", "dd"), ("dl",)),
    "dd": (("dt", "dd"), ("dl",)),
    "option": (("option",), ("select", "datalist")),
    "optgroup": (("option", "optgroup"), ("select",)),
    "td": (("td", "th"), ("table",)),
    "th": (("td", "th"), ("table",)),
    "tr": (("tr",), ("table",)),
    "tbody": (("tbody", "thead", "tfoot"), ("table",)),
    "tfoot": (("tbody", "thead", "tfoot"), ("table",)),
    "thead": (("tbody", "thead", "tfoot"), ("table",)),
}


class OpenElements:
    """The names of the elements that are open, from the outermost inwards.

    >>> stack = OpenElements()
    >>> for name in ("div", "ul", "li", "p", "b"):
    ...     stack.push(name)
    >>> stack.kept_at_start("li"), stack.kept_at_start("div"), stack.kept_at_start("i")
    (2, 3, 5)
    >>> stack.kept_at_end("ul"), stack.kept_at_end("b"), stack.kept_at_end("td")
    (1, 4, 5)
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self._blocks: list[int] = []

    def __len__(self) -> int:
        return len(self._names)

    def push(self, name: str) -> None:
        """Open an element."""
        self._places[name].append(len(self._names))
        if name in BLOCKS:
            self._blocks.append(len(self._names))
        self._names.append(name)

    def pop(self) -> str:
        """Close the innermost element and return its name."""
        name = self._names.pop()
        self._places[name].pop()
        if name in BLOCKS:
            self._blocks.pop()
        return name

    def kept_at_start(self, name: str) -> int:
        """Return how many elements stay open before a start tag of *name*."""
        kept = len(self._names)
        if name in BLOCKS and (place := self._last(("p",))) > self._last(_WALLS):
            kept = place
        if name == "a" and (place := self._last(("a",))) > self._last_block():
            kept = place
        if name in _SIBLINGS:
            ended, within = _SIBLINGS[name]
            wall = max(self._last(within), -1 if "table" in within else self._last(_WALLS))
            if (place := self._last(ended)) > wall:
                kept = min(kept, place)
        return kept

    def kept_at_end(self, name: str) -> int:
        """Return how many elements stay open after an end tag of *name*: all, if it is stray."""
        place = self._last((name,))
        if name not in BLOCKS and name not in _CONTAINERS:
            wall = self._last_block()
        elif name in _CELLS or name in _WALLS:
            wall = -1 if name in ("table", "html") else self._last(("table",))
        else:
            wall = self._last(_WALLS)
        return place if place >= max(wall, 0) else len(self._names)

    def _last(self, names: Collection[str]) -> int:
        return max((p[-1] for name in names if (p := self._places.get(name))), default=-1)

    def _last_block(self) -> int:
        return self._blocks[-1] if self._blocks else -1
