"""The colors of the terminal."""

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import attrs

from elwood.foundation.settings import BadSetting, Complaint, Loaded, Section, setting

Theme = Literal["auto", "dark", "light"]
# The colors of the terminal that Elwood uses; each is shown as prompt_toolkit's color.
COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
# Replacements where the usual color is hard to read on the background.
THEMES: Mapping[Theme, Mapping[str, str]] = {
    "auto": {},  # the terminal's own colors
    "dark": {"blue": "ansibrightblue"},
    "light": {"cyan": "ansiblue", "yellow": "ansimagenta", "gray": "ansibrightblack"},
}
# Backgrounds in COLORFGBG that are light.
_LIGHT = {"7", *map(str, range(9, 16))}


def is_color(text: str) -> None:
    """Check for a color.  Raises BadSetting."""
    if not re.fullmatch("#[0-9a-fA-F]{6}", text) and text not in COLORS:
        remedy = f"write #rrggbb, or one of {', '.join(COLORS)}"
        raise BadSetting(f"{text[:20]!r} is not a color", remedy)


def _check_colors(loaded: Loaded) -> Iterator[Complaint]:
    for name in loaded.config.get(ConsoleSettings).colors:
        if name not in COLORS:
            yield ("console", "colors", name), "there is no such color", f"use {', '.join(COLORS)}"


@attrs.frozen(kw_only=True)
class ConsoleSettings:
    SECTION: ClassVar = Section(
        "console",
        "The terminal of `elwood chat` and `elwood watch`. With the variable `NO_COLOR` it has "
        "no colors.",
        verify=_check_colors,
    )

    theme: Theme = setting(
        "auto",
        help="dark or light: colors for this background; auto: light if the terminal says so in "
        "`COLORFGBG`, else the terminal's own 16 colors",
    )
    colors: Mapping[str, str] = setting(
        {},
        help=f"your own colors: #rrggbb for any of {', '.join(COLORS)}",
        check=is_color,
        example='{ yellow = "#b36b00" }',
    )


def choose_colors(settings: ConsoleSettings, background: str) -> dict[str, str]:
    """Return prompt_toolkit's color for each of `COLORS`; *background* is COLORFGBG.

    >>> chosen = choose_colors(ConsoleSettings(colors={"red": "#ff0000"}), "0;15")
    >>> chosen["red"], chosen["cyan"], chosen["green"]
    ('#ff0000', 'ansiblue', 'ansigreen')
    """
    theme = settings.theme
    if theme == "auto" and background.rpartition(";")[2] in _LIGHT:
        theme = "light"
    own = {name: f"ansi{one}" if one in COLORS else one for name, one in settings.colors.items()}
    return {name: f"ansi{name}" for name in COLORS} | {**THEMES[theme], **own}
