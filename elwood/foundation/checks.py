"""What ``elwood doctor`` can be given to check, and what such a check finds."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

import msgspec
import trio

from elwood.foundation.net.http import Answer, Client, Interrupted, Unreachable
from elwood.foundation.runtime import Blocking
from elwood.foundation.settings import Config

# Seconds for one service, and for each wait within.
DEADLINE = 15.0
READ_TIMEOUT = 10.0
# Bytes of an answer; a list of some thousand models fits.
MAX_ANSWER = 4 * 1024 * 1024
_TOO_EARLY_OR_LATE = ("not yet valid", "has expired")

Level = Literal["ok", "warning", "problem"]


class Finding(msgspec.Struct, frozen=True):
    """*what* is so with *subject*; a *remedy* says what the operator can do.

    A *problem* keeps Elwood, or a part of it, from working; a *warning* may do so later.
    """

    level: Level
    subject: str
    what: str
    remedy: str = ""


class CheckContext(msgspec.Struct, kw_only=True):
    """What a check looks at; *now* is our clock, Unix seconds.

    *skews* are how far our clock is ahead of those of the services that were asked.
    """

    config: Config
    client: Client
    now: float
    blocking: Blocking
    skews: list[float] = msgspec.field(default_factory=list)
    asked: bool = False
    # Reads agent.toml, the assistant's half of the configuration; raises CliFailure.
    own: Callable[[str], object] = lambda text: None

    async def get(
        self, service: str, base: str, path: str, headers: Mapping[str, str] | None = None
    ) -> Answer | Finding:
        """Fetch *path* from *service*, whose address is *base*, or say why that failed."""
        self.asked = True
        try:
            with trio.fail_after(DEADLINE):
                answer = await self.client.get(
                    f"{base}{path}",
                    headers=headers or {},
                    read_timeout=READ_TIMEOUT,
                    limit=MAX_ANSWER,
                )
        except (Unreachable, Interrupted) as error:
            return unreached(service, base, error.why, self.now)
        except trio.TooSlowError:
            return unreached(service, base, f"no answer within {DEADLINE:.0f} s", self.now)
        try:
            told = parsedate_to_datetime(answer.headers.get("date", ""))
        except ValueError:
            return answer
        self.skews.append(self.now - told.timestamp())
        return answer


Check = Callable[[CheckContext], Awaitable[Iterable[Finding]]]


def unreached(service: str, base: str, why: str, now: float) -> Finding:
    """Say that there is no answer, or whose fault it is."""
    if any(phrase in why for phrase in _TOO_EARLY_OR_LATE):
        here = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M UTC")
        what = f"{base} has a certificate that, by our clock ({here}), is not valid: {why}"
        return Finding("problem", "clock", what, "set the clock: timedatectl set-ntp true")
    remedy = "check the network (DNS, proxy, firewall) and the address"
    return Finding("problem", service, f"{base} cannot be reached: {why}", remedy)
