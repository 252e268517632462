from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import attrs

from elwood.foundation.settings import Complaint, Loaded, Section, between, is_chat, setting


def _check_folders(loaded: Loaded) -> Iterator[Complaint]:
    if SkillSettings in loaded.config.values:
        settings = loaded.config.of(SkillSettings)
        for name in sorted(settings.chats.keys() & set(settings.always)):
            what = "stands in every prompt (skills.always), so it is for all chats"
            yield ("skills", "chats", name), what, "take it out of one of the two"


@attrs.frozen(kw_only=True)
class SkillSettings:
    """Skills outside the workspace, in *folders*; *always* names those in every prompt."""

    SECTION: ClassVar = Section(
        "skills",
        "Instructions for kinds of work, each a folder with a SKILL.md.",
        verify=_check_folders,
    )

    folders: tuple[Path, ...] = setting(
        (),
        help="folders with skills beside those of the workspace; they are only read",
        example='["/srv/team-skills"]',
    )
    always: tuple[str, ...] = setting(
        (), help="skills whose instructions stand in every prompt", example='["style"]'
    )
    off: tuple[str, ...] = setting((), help="skills that are not used", example='["github"]')
    load: int = setting(
        1,
        help="skills at most that are loaded at once with a message that they clearly fit; 0: none",
        check=between(0, 3),
    )
    chats: Mapping[str, tuple[int | str, ...]] = setting(
        {},
        help="skills that only some chats may use, such as `telegram:123456` (a number alone is "
        "one of Telegram); these stand in no prompt, and are found by what they are about, or by "
        "their names",
        example='{ taxes = ["telegram:123456"] }',
        check=is_chat,
        names="channel",
    )
