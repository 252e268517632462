"""What ``elwood search`` does: it reads the logs, while Elwood runs or not."""

import sys
from argparse import Namespace

from elwood.agent.conversation.settings import Owner
from elwood.features.conversations.said import shown
from elwood.features.conversations.store import find
from elwood.foundation.settings import Config, Paths


def search(config: Config, given: Namespace) -> int:
    """Print the turns that have the words; return the exit code.

    Those with all people: whoever may read the logs may read all of them.
    """
    query, limit, of = " ".join(given.query), given.limit, given.of
    state, zone = config.of(Paths).state, config.of(Owner).zone
    result = find(state, query, limit, lambda turn: of is None or turn.people == {of})
    for one in result.found:
        print(shown(one, result.chosen, zone, names=True))
    for problem in result.left_out:
        print(problem, file=sys.stderr)
    if not result.found:
        print("nobody said any of these words", file=sys.stderr)
    return 0 if result.found else 1
