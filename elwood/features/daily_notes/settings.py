"""Settings of the daily notes: ``[daily_notes]``."""

from typing import ClassVar

import attrs

from elwood.foundation.settings import Section, between, setting

# Most calls, and characters of a text, in a finished turn (`agent.session.log.turns`, which is too
# large to import for settings).
MAX_CALLS, MAX_WORDS = 20, 1000


@attrs.frozen(kw_only=True)
class DailyNotesSettings:
    """Bounds of an entry, and whether reflections on the notes are written.

    An entry never contains strangers' words.
    """

    SECTION: ClassVar = Section(
        "daily_notes",
        "How much of each turn Elwood writes to the note of the day, in threads/daily.",
    )

    asked: int = setting(
        200, help="maximum characters of your message", check=between(20, MAX_WORDS)
    )
    answer: int = setting(
        200, help="maximum characters of the answer; 0: none", check=between(0, MAX_WORDS)
    )
    calls: int = setting(
        8, help="maximum number of tool calls in the note", check=between(0, MAX_CALLS)
    )
    lines: int = setting(
        3, help="maximum lines of the result or error of a call", check=between(1, 20)
    )
    output: int = setting(
        200, help="maximum characters of these lines; 0: none", check=between(0, MAX_WORDS)
    )
    reflections: bool = setting(True, help="write a reflection on each week and month")
