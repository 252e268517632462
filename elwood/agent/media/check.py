"""Check that the configured transcription program exists."""

from collections.abc import Iterator

from elwood.agent.media.settings import MediaSettings
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.sandbox.layout import missing_programs
from elwood.foundation.settings import Config


async def check(context: CheckContext) -> list[Finding]:
    return await context.blocking(lambda: list(programs(context.config)))


def programs(config: Config) -> Iterator[Finding]:
    """Check the program that transcribes recordings; blocks."""
    command = config.get(MediaSettings).transcription_command
    for name in missing_programs(command[:1]):
        what = f"media.transcription_command: there is no program {name}"
        remedy = "install it in /usr/local/bin, or write its path"
        yield Finding("problem", "media", what, remedy)
