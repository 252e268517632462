from typing import ClassVar

import attrs

from elwood.foundation.settings import Section, between, setting


@attrs.frozen(kw_only=True)
class McpServeSettings:
    """Permissions of other programs, in addition to reading."""

    SECTION: ClassVar = Section(
        "mcp_serve",
        "What `elwood mcp-serve` offers to editors and other agents. See "
        "docs/guides/other-programs.md.",
    )

    ask: bool = setting(
        False, help="also let them ask you questions; their text counts as a stranger's words"
    )
    patience: float = setting(
        600.0, help="seconds that they wait for your answer", check=between(1, 3600)
    )
