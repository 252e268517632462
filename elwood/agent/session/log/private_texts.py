"""Which private data the model still sees in a conversation, so that quoting it can be noticed."""

from collections.abc import Collection, Iterable

from elwood.agent.conversation.brought_along import OFFERED, are_days_private, days_of
from elwood.agent.conversation.message import Human, Notice, Results
from elwood.agent.session.log.nodes import Node
from elwood.agent.session.turn.compaction import is_notice_of_cut


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
            case Human(text) if are_days_private(text):
                found.append(days_of(text))
    return found
