"""Where the owner was heard last."""

from pathlib import Path

from elwood.agent.channels.channel import LastHeard
from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Disk


def opened(folder: Path) -> LastHeard:
    return LastHeard(folder / "heard.json", Disk(blocking=inline, clock=lambda: 0.0))


def is_there(folder: Path) -> bool:
    return (folder / "heard.json").exists()


async def test_it_outlives_the_process_once_it_is_saved(tmp_path: Path) -> None:
    heard = opened(tmp_path)
    await heard.load()
    await heard.save()
    assert not is_there(tmp_path), "nobody was heard"
    heard.note(Route("telegram", 1, reply_to=5))
    await heard.save()

    again = opened(tmp_path)
    await again.load()
    assert again.route == Route("telegram", 1)


async def test_who_was_heard_before_it_was_read_counts(tmp_path: Path) -> None:
    (tmp_path / "heard.json").write_text('{"channel":"telegram","chat":1}')
    heard = opened(tmp_path)
    heard.note(Route("console"))
    await heard.load()
    assert heard.route == Route("console")


async def test_a_file_that_cannot_be_read_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "heard.json").write_text("{")
    heard = opened(tmp_path)
    await heard.load()
    assert heard.route is None
