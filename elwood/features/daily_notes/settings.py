"""What can be set about the daily notes: ``[daily_notes]``."""

from typing import ClassVar

import attrs

from elwood.foundation.settings import Section, between, setting

# What is known of a turn when it has ended: the most calls, and characters of a text
# (`agent.session.log.turns`, which is too much to be imported for settings).
MAX_CALLS, MAX_WORDS = 20, 1000


@attrs.frozen(kw_only=True)
class DailyNotesSettings:
    """Bounds of one entry, and whether *reflections* are written, if anything was done.

    What a turn knew from strangers is told in no entry.
    """

    SECTION: ClassVar = Section(
        "daily_notes", "How much of each turn stands in the note of its day, in threads/daily."
    )

    asked: int = setting(200, help="characters of a message of yours", check=between(20, MAX_WORDS))
    answer: int = setting(
        200, help="characters of the answer; 0: none", check=between(0, MAX_WORDS)
    )
    calls: int = setting(8, help="calls that are named", check=between(0, MAX_CALLS))
    lines: int = setting(
        3, help="first lines of what a call gave, or of its error", check=between(1, 20)
    )
    output: int = setting(
        200, help="characters of these lines; 0: none", check=between(0, MAX_WORDS)
    )
    reflections: bool = setting(
        True, help="write reflections on what was done, each week and month"
    )
