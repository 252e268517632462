"""Which private data the model still sees in a conversation, so that quoting it can be noticed."""

from collections.abc import Collection, Iterable

from elwood.core.compaction import is_notice_of_cut
from elwood.core.conversation import Human, Notice, Results
from elwood.core.nodes import Node
from elwood.core.recall import OFFERED
from elwood.core.threads import is_private, recalled


def private_texts(path: Iterable[Node], calls: Collection[str], *, summed_up: bool) -> list[str]:
    """List what *calls* gave, notes and days that came back, and summaries if *summed_up*.

    >>> private_texts([Node(1, Human("hello"), 1)], (), summed_up=True)
    []
    """
    found = []
    for message in (node.message for node in path):
        match message:
            case Results(results):
                found += [one.text for one in results if one.call in calls]
            case Notice(text) if text.startswith(OFFERED):
                found.append(text)
            case Notice(text) if summed_up and is_notice_of_cut(message):
                found.append(text)
            case Human(text) if is_private(text):
                found.append(recalled(text))
    return found
