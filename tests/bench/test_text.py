"""The time for which text from outside blocks the loop, as a ratio to a plain loop over it."""

from datetime import UTC, datetime
from zlib import crc32

import pytest

from tests.hostile_text import SHAPES
from tests.test_linear_text import BOUNDS, CALLED, seconds

# Size of a text in bytes of UTF-8, and the maximum ratio to the plain loop.  The plain loop takes
# 2.5 ms on an idle machine, so the limit is 20 ms.
SIZE, LIMIT = 100_000, 8
# Number of shapes for a function on one day.  Other days use other shapes.
SAMPLE = 4

# Functions that get less than SIZE on the loop: the limit in characters, with the reason.
SHORTER: dict[str, tuple[int, str]] = {
    "agent.approvals.prompt_text.details_message": (20_000, "the longest command"),
    "agent.approvals.prompt_text.request_messages": (20_000, "the longest command"),
    "agent.conversation.inbound.plain": (4096, "a name that a channel sends"),
    "agent.models.openai.ChatStream": (65_536, "one read from the network"),
    "agent.session.turn.unsupported_claims.fold": (10_000, "in a thread above"),
    "agent.session.turn.unsupported_claims.neutralise": (10_000, "in a thread above"),
    "agent.session.turn.unsupported_claims.find_unsupported": (10_000, "in a thread above"),
    "agent.session.turn.unsupported_claims.with_receipts": (10_000, "in a thread above"),
    "features.mcp.definitions.describe_tool": (1_000, "the longest description"),
    "features.mcp.definitions.refusal": (32_000, "the longest schema"),
    "features.memory.extension.relevant": (20_000, "one note"),
    "features.memory.tools.results": (20_000, "one note"),
    "features.own_settings.parts.diff": (20_000, "the longest file of settings"),
    "features.shell.rules.rule": (20_000, "the longest command"),
    "features.tasks.heartbeat.parse_checklist": (65_536, "the longest document"),
    "features.tasks.task.check_pattern": (500, "the longest pattern"),
    "features.telegram.reading.identify": (4096, "the longest message"),
    "features.telegram.reading.find_quoted_author": (4096, "the longest message"),
    "foundation.net.http.EventParser": (65_536, "one read from the network"),
    "foundation.secrets.redaction.Redactor.partial": (32_768, "twice the longest draft"),
    "foundation.storage.paths.protection": (4096, "the longest path of Linux"),
    "foundation.text.html.to_html": (10_000, "in a thread above"),
    "foundation.text.markdown.to_entities": (10_000, "in a thread above"),
    "foundation.text.splitting.parts": (10_000, "in a thread above"),
    "foundation.text.splitting.with_footer": (10_000, "in a thread above"),
    "agent.channels.attached.readable": (10_000, "in a thread above"),
    "foundation.text.words.pieces": (2_000, "the input of the memory"),
}
# Exceptions: their own limit, with the reason.
LATER: dict[str, tuple[int, str]] = {
    "agent.models.openai.ChatStream": (15, "line breaks only"),
    "foundation.text.characters.unescape_entities": (15, "callers pass a line or a cut page"),
    "agent.policy.quotations.shared_with": (16, "an address or a search of 10,000 characters"),
    "app.config.load.load_own": (16, "TOML, when a person or a tool changes it"),
    "features.tasks.heartbeat.parse_checklist": (16, "line breaks only"),
    "foundation.net.http.EventParser": (15, "line breaks only"),
    "foundation.text.html.to_html": (90, "markdown-it, 10 µs a character"),
    "foundation.text.markdown.to_entities": (90, "markdown-it, 10 µs a character"),
    "foundation.text.splitting.parts": (90, "markdown-it, 10 µs a character"),
    "foundation.text.splitting.with_footer": (90, "markdown-it, 10 µs a character"),
    "agent.channels.attached.readable": (90, "markdown-it, 10 µs a character"),
}
# Functions that never run on the loop with text from outside.
ELSEWHERE: dict[str, str] = {
    "agent.conversation.settings.is_hours": "the owner writes it",
    "agent.conversation.settings.read_hours": "the owner writes it",
    "agent.policy.settings.is_pattern": "the owner writes it",
    "agent.media.extract.read_pdf": "in a process",
    "features.console.drawing.draw_answer": "in the process of the terminal",
    "features.console.drawing.tail": "in the process of the terminal",
    "features.console.drawing.words": "in the process of the terminal",
    "features.daily_notes.notes.add": "in a thread",
    "features.daily_notes.notes.parts": "in a thread",
    "features.daily_notes.notes.passages": "in a thread",
    "features.daily_notes.notes.without": "in a thread",
    "foundation.net.urls.domain": "the owner writes it",
    "foundation.text.readable.article": "in a thread",
}


def run_loop(text: str) -> object:
    count = 0
    for char in text:
        if char.isalnum():
            count += 1
    return count


def cut_to_size(text: str, most: int) -> str:
    """Cut *text* to SIZE bytes in UTF-8 and *most* characters."""
    return text[: min(most, SIZE * len(text) // len(text.encode("utf-8", "surrogatepass")))]


@pytest.mark.bench
def test_text_from_outside_does_not_block_the_loop(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = len(SHAPES) if request.config.getoption("--all-shapes") else SAMPLE
    texts = {shape: make(SIZE) for shape, make in SHAPES.items()}
    today = datetime.now(UTC).toordinal()
    rows: list[tuple[float, int, str, str]] = []
    for name, call in CALLED.items():
        if name in ELSEWHERE:
            continue
        most, _ = SHORTER.get(name, BOUNDS.get(name, (SIZE, "")))
        limit, _ = LATER.get(name, (LIMIT, ""))
        floor = min(seconds(run_loop, "ab " * (SIZE // 3)) for _ in range(2))
        found = []
        first, step = crc32(name.encode()) + today, len(SHAPES) // sample
        for number in range(first, first + sample * step, step):
            shape = list(SHAPES)[number % len(SHAPES)]
            text = cut_to_size(texts[shape], most)
            took = seconds(call, text)
            if took > limit / 2 * floor:  # another program may have evicted the caches
                took = min(took, *(seconds(call, text) for _ in range(2)))
            found.append((took / floor, shape))
        rows.append((max(found)[0], limit, name, max(found)[1]))
    with capsys.disabled():
        print()
        for ratio, limit, name, shape in sorted(rows, reverse=True):
            if ratio > 1 or name in SHORTER or name in LATER:
                most, why = SHORTER.get(name, (SIZE, ""))
                about = f"{most:,}: {why}" if why else ""
                later = LATER.get(name, (0, ""))[1]
                print(f"{ratio:5.1f} of {limit:2}  {name}  ({shape})  {about} {later}".rstrip())
        for name, why in ELSEWHERE.items():
            print(f"   -        {name}  {why}")
    assert {name for ratio, limit, name, _ in rows if ratio > limit} == set()
    assert {*SHORTER, *LATER, *ELSEWHERE} <= set(CALLED)
