"""What ``elwood search`` does: it reads the logs, while Elwood runs or not."""

import sys
from argparse import Namespace

from elwood.agent.conversation.settings import Owner
from elwood.features.conversations.said import shown
from elwood.features.conversations.store import find
from elwood.foundation.settings import Config, Paths


def search(config: Config, given: Namespace) -> int:
    """Print the turns that have the words; return the exit code.

    Only with --all those with all people, though whoever may read the logs may read all of them.
    """
    query, limit = " ".join(given.query), given.limit
    state, zone = config.of(Paths).state, config.of(Owner).zone
    of = {given.of} if given.of else {one.owner(config) for one in given.features} - {""}
    result = find(
        state, query, limit, lambda turn: given.all or (bool(turn.people) and turn.people <= of)
    )
    for one in result.found:
        print(shown(one, result.chosen, zone, names=True))
    for problem in result.left_out:
        print(problem, file=sys.stderr)
    if not result.found:
        more = "" if given.all else "; --all looks at what all people said, too"
        print(f"nobody said any of these words{more}", file=sys.stderr)
    return 0 if result.found else 1
