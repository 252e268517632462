from elwood.agent.session.settings import AGENT_FILE
from elwood.features.own_settings.store import STILL, read
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.command_line import CliFailure
from elwood.foundation.settings import Paths


async def check(context: CheckContext) -> list[Finding]:
    """Check the file as the app reads it; a missing file is fine.  Raises OSError."""
    path = context.config.get(Paths).state / AGENT_FILE
    try:
        context.own(text := await context.blocking(lambda: read(path)))
    except (ValueError, CliFailure) as error:
        what = f"{STILL} {'; '.join(str(error).splitlines())}"
        return [
            Finding(
                "warning", "configuration", what, "correct it, or send /settings undo in a chat"
            )
        ]
    return [Finding("ok", "configuration", f"{path} is valid")] if text else []
