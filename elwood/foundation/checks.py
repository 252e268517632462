"""The checks of ``elwood doctor`` and their findings."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

import msgspec
import trio

from elwood.foundation.net.http import Answer, Client, Interrupted, Unreachable
from elwood.foundation.runtime import Blocking
from elwood.foundation.settings import Config

# Seconds for one service in total, and for each read.
DEADLINE = 15.0
READ_TIMEOUT = 10.0
# Bytes of a response; a list of a few thousand models fits.
MAX_ANSWER = 4 * 1024 * 1024
_TOO_EARLY_OR_LATE = ("not yet valid", "has expired")

Level = Literal["ok", "warning", "problem"]


class Finding(msgspec.Struct, frozen=True):
    """The result of a check.

    A "problem" stops Elwood or a part of it from working; a "warning" may do so later.
    """

    level: Level
    subject: str
    what: str
    # What the operator can do.
    remedy: str = ""


class CheckContext(msgspec.Struct, kw_only=True):
    """The input of a check."""

    config: Config
    client: Client
    # Local time, Unix seconds.
    now: float
    blocking: Blocking
    # Seconds by which the local clock is ahead of each service that responded.
    skews: list[float] = msgspec.field(default_factory=list)
    # True once a service was contacted.
    asked: bool = False
    # Parses agent.toml, the assistant's half of the configuration; raises CliFailure.
    own: Callable[[str], object] = lambda text: None

    async def get(
        self, service: str, base: str, path: str, headers: Mapping[str, str] | None = None
    ) -> Answer | Finding:
        """Fetch *path* from *service* at the address *base*; return a Finding on failure."""
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
            return build_unreached(service, base, error.why, self.now)
        except trio.TooSlowError:
            return build_unreached(service, base, f"no answer within {DEADLINE:.0f} s", self.now)
        try:
            service_time = parsedate_to_datetime(answer.headers.get("date", ""))
        except ValueError:
            return answer
        self.skews.append(self.now - service_time.timestamp())
        return answer


Check = Callable[[CheckContext], Awaitable[Iterable[Finding]]]


def build_unreached(service: str, base: str, why: str, now: float) -> Finding:
    """Build the finding for a failed request; blame the local clock if it is wrong."""
    if any(phrase in why for phrase in _TOO_EARLY_OR_LATE):
        here = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M UTC")
        what = f"the certificate of {base} is not valid at the time of this machine, {here}: {why}"
        return Finding("problem", "clock", what, "set the clock: run timedatectl set-ntp true")
    remedy = "check the network (DNS, proxy, firewall) and the address"
    return Finding("problem", service, f"{base} cannot be reached: {why}", remedy)
