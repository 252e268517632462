from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import attrs

from elwood.foundation.settings import Complaint, Loaded, Section, between, is_chat, setting


def _check_folders(loaded: Loaded) -> Iterator[Complaint]:
    if SkillSettings in loaded.config.values:
        settings = loaded.config.get(SkillSettings)
        for name in sorted(settings.chats.keys() & set(settings.always)):
            what = "is in every prompt (skills.always), so all chats use it"
            yield ("skills", "chats", name), what, "remove it from one of the two"


@attrs.frozen(kw_only=True)
class SkillSettings:
    """Skills outside the workspace, in *folders*; *always* names those in every prompt."""

    SECTION: ClassVar = Section(
        "skills",
        "Instructions for kinds of work, each a folder with a SKILL.md.",
        verify=_check_folders,
    )

    folders: tuple[Path, ...] = setting(
        (), help="more folders with skills, which are read-only", example='["/srv/team-skills"]'
    )
    always: tuple[str, ...] = setting(
        (), help="skills whose instructions are in every prompt", example='["style"]'
    )
    off: tuple[str, ...] = setting((), help="skills that Elwood does not use", example='["github"]')
    load: int = setting(
        1,
        help="maximum number of skills loaded with a message that they clearly fit; 0: none",
        check=between(0, 3),
    )
    chats: Mapping[str, tuple[int | str, ...]] = setting(
        {},
        help="skills that only some chats may use, such as `telegram:123456` (a number alone is a "
        "Telegram chat); no prompt lists them, so they are found by topic or by name",
        example='{ taxes = ["telegram:123456"] }',
        check=is_chat,
        names="channel",
    )
