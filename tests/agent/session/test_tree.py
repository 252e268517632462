"""The branches of a conversation, and the stored data of the other branches."""

from elwood.agent.conversation.message import Human
from elwood.agent.session.log.branch import MAX_BRANCHES, Branch, Tree, describe_branches
from elwood.agent.session.log.entries import Node


def path(*seqs: int) -> Branch:
    """Return a line with turns that start at these entries."""
    return Branch([Node(seq, Human(f"[now]\nwords {seq}"), 10, begins=True) for seq in seqs])


def test_a_branch_is_stored_once() -> None:
    """A second undo of the same branch adds no new branch."""
    tree = Tree()
    tree.leave(path(2, 5, 8), 10, 1.0, "undone")
    tree.leave(path(2, 5), 11, 2.0, "undone")

    assert [(one.number, one.said) for one in tree.branches] == [
        (1, "3 turns: “words 2” … “words 8”")
    ]


def test_a_mark_keeps_its_place() -> None:
    tree = Tree()
    tree.mark("before", path(2), 4, 1.0)
    tree.leave(path(2, 6), 8, 2.0, "left")
    tree.go_on(2)
    tree.leave(path(2, 10), 12, 3.0, "new")

    assert [(b.number, b.tip, b.name) for b in tree.branches] == [
        (2, 4, "before"),
        (1, 8, ""),
        (3, 12, ""),
    ]


def test_branches_are_bounded() -> None:
    tree = Tree()
    tree.mark("Trip", path(2), 4, 0.0)
    tree.mark("trip", path(2, 6), 8, 0.0)
    for seq in range(10, 10 + 5 * MAX_BRANCHES, 5):
        tree.leave(path(seq), seq + 1, 1.0, "new")

    assert len(tree.branches) == MAX_BRANCHES
    found = tree.find("TRIP")
    assert found is not None
    assert (found.tip, found.name) == (8, "trip")


def test_the_listing_shows_the_current_branch_first() -> None:
    """A branch that was resumed and continued is listed once, as the current one."""
    tree = Tree()
    tree.leave(path(2), 4, 0.0, "new")
    tree.mark("x", path(6, 8), 9, 60.0)
    tree.leave(path(6, 8), 9, 60.0, "left")
    tree.go_on(1)
    assert [*describe_branches(tree, path(2, 12), 120.0).values()] == [
        "→ 1: here, 2 turns: “words 2” … “words 12”",
        "3 x: saved 60 s ago, 2 turns: “words 6” … “words 8”",
    ]
    tree.leave(path(2, 12), 14, 130.0, "left")
    assert [(branch.number, branch.tip) for branch in tree.branches] == [(3, 9), (1, 14)]
