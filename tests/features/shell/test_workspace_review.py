"""The owner reviews instruction files that commands changed."""

from pathlib import Path

from elwood.agent.conversation.route import Route
from elwood.agent.session.extension import CommandCall
from elwood.agent.session.log.entries import Received
from elwood.features.shell.commands import WorkspaceReview
from elwood.foundation.runtime import inline
from elwood.foundation.sandbox.instructions import keep_copies, set_changes_aside
from elwood.foundation.storage.files import Root
from elwood.foundation.text.markdown import to_entities

CALL = CommandCall(
    session="s", given="", received=Received("a", "/workspace", "tg:1", Route("console"), 0.0)
)


async def test_no_line_of_a_changed_file_ends_the_block_that_shows_it(tmp_path: Path) -> None:
    workspace, copies, state = (tmp_path / name for name in ("workspace", "copies", "state"))
    for folder in (workspace, copies, state):
        folder.mkdir()
    (workspace / "USER.md").write_text("````\nI like tea.\n")
    keep_copies(workspace, copies)
    (workspace / "USER.md").write_text("````\nI like **fees**.\n")
    set_changes_aside(Root(workspace), copies, state)
    review = WorkspaceReview(Root(workspace), state, inline, lambda decided: None)

    shown = to_entities((await review.answer(CALL)).text)

    assert "+I like **fees**." in shown.text, "it is shown as it stands"
