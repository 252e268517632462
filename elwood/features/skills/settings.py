"""What can be set about skills."""

from pathlib import Path
from typing import ClassVar

import attrs

from elwood.foundation.settings import Section, setting


@attrs.frozen(kw_only=True)
class SkillSettings:
    """Skills beside those of the workspace, in *folders*; *always* names those in every prompt."""

    SECTION: ClassVar = Section(
        "skills", "Instructions for kinds of work, each a folder with a SKILL.md."
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
