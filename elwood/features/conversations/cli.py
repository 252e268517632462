"""``elwood search``: read the logs, whether or not Elwood runs."""

import sys
from argparse import Namespace

from elwood.agent.conversation.settings import Owner
from elwood.features.conversations.store import find
from elwood.features.conversations.turns import format_turn
from elwood.foundation.command_line import show_json
from elwood.foundation.settings import Config, Paths


def search(config: Config, given: Namespace) -> int:
    """Print the turns that contain the words; return the exit code.

    Without --all, print the owner's turns only, though file access already allows reading all.
    """
    query, limit = " ".join(given.query), given.limit
    state, zone = config.get(Paths).state, config.get(Owner).zone
    people = {given.of} if given.of else {one.owner(config) for one in given.features} - {""}
    result = find(
        state, query, limit, lambda turn: given.all or (bool(turn.people) and turn.people <= people)
    )
    if given.json:
        show_json(result.turns)
    for turn in result.turns if not given.json else ():
        print(format_turn(turn, result.words, zone, names=True))
    for problem in result.left_out:
        print(problem, file=sys.stderr)
    if not result.turns:
        more = "" if given.all else " (--all also searches conversations with other people)"
        print(f"No conversation contains any of these words.{more}", file=sys.stderr)
    return 0 if result.turns else 1
