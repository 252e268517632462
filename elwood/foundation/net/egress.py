"""What may leave Elwood for the web: whose domains, which ports, how often.

That an address is public, and a URL understood in one way only, is checked besides and always
(`core.addresses`, `core.urls`): no rule and no approval lifts that (AP-11).
"""

from collections.abc import Iterable
from typing import ClassVar, Literal

import attrs

from elwood.foundation.net.urls import PORTS, Url, domain
from elwood.foundation.settings import Section, at_least, is_port, setting

# Seconds in which requests are counted.
WINDOW = 60.0
# Differences below this (seconds) are rounding: waiting for them would not move the clock.
_GRAIN = 1e-6

Destination = Literal["allowed", "ask", "blocked", "open"]


def _domains(given: Iterable[str]) -> tuple[str, ...]:
    """Write domains in their one form; raises ValueError for what is none."""
    domains = []
    for text in given:
        name = domain(text)
        if name is None:
            raise ValueError(f"{text!r} is not the name of a domain, as example.org is")
        domains.append(name)
    return tuple(domains)


@attrs.frozen(kw_only=True)
class EgressRules:
    """Which web servers may be talked to.

    A domain stands for itself and all its subdomains.  *blocked* wins over *always_ask*, which
    wins over *allowed*.  *per_minute* bounds the requests to one host, *per_minute_all* those to
    all.
    """

    SECTION: ClassVar = Section(
        "egress",
        "The web. A domain stands for its subdomains too; `blocked` wins over `always_ask`, and "
        "that over `allowed`. Addresses inside your network are never reached.",
    )

    allowed: tuple[str, ...] = setting(
        (),
        help="domains that may be written to unasked, in conversations without strangers' words",
        example='["api.example.org"]',
        converter=_domains,
    )
    always_ask: tuple[str, ...] = setting(
        (), help="domains that you are asked about each time", converter=_domains
    )
    blocked: tuple[str, ...] = setting(
        (),
        help="domains that are never talked to",
        example='["ads.example.com"]',
        converter=_domains,
    )
    ports: tuple[int, ...] = setting(
        PORTS, help="ports of web servers that may be connected to", check=is_port
    )
    per_minute: int = setting(30, help="most requests to one host in a minute", check=at_least(1))
    per_minute_all: int = setting(
        120, help="most requests to all hosts in a minute", check=at_least(1)
    )


def destination(rules: EgressRules, host: str) -> Destination:
    """Say what the rules hold of *host*, which is one of a Url; "open" if they do not name it.

    >>> rules = EgressRules(allowed=("good.example",), blocked=("ads.good.example",))
    >>> destination(rules, "www.good.example"), destination(rules, "x.ads.good.example")
    ('allowed', 'blocked')
    >>> destination(rules, "notgood.example")
    'open'
    """
    if _is_within(host, rules.blocked):
        return "blocked"
    if _is_within(host, rules.always_ask):
        return "ask"
    return "allowed" if _is_within(host, rules.allowed) else "open"


def refusal(rules: EgressRules, url: Url, hop: int) -> str | None:
    """Say why the rules forbid hop number *hop* of a request, to *url*; None if they do not.

    Hop 0 is what was asked for and, where that is needed, approved; a redirect to a domain that
    must be asked for is not covered by it.

    >>> rules = EgressRules(always_ask=("bank.example",))
    >>> refusal(rules, Url("https", "bank.example", 443, "/"), 0)
    >>> refusal(rules, Url("https", "bank.example", 443, "/"), 1)
    'it redirects to bank.example, which must be asked for by itself'
    """
    match destination(rules, url.host):
        case "blocked":
            return f"the owner has blocked {url.host}"
        case "ask" if hop > 0:
            return f"it redirects to {url.host}, which must be asked for by itself"
        case _:
            return None


@attrs.frozen
class Windows:
    """Sliding windows over the requests of the last minute: *asked* are their times and hosts.

    As long as only requests are counted for which ``wait`` was 0, there are never more of them
    than *total*.

    >>> windows = Windows(per_host=1, total=2).after("a.example", 10.0)
    >>> windows.wait("a.example", 15.0), windows.wait("b.example", 15.0)
    (55.0, 0.0)
    """

    per_host: int = attrs.field(validator=attrs.validators.ge(1))
    total: int = attrs.field(validator=attrs.validators.ge(1))
    asked: tuple[tuple[float, str], ...] = ()

    def wait(self, host: str, now: float) -> float:
        """Say in how many seconds *host* may be asked again; 0 is now."""
        recent = self._recent(now)
        theirs = [at for at, name in recent if name == host]
        return max(
            _delay([at for at, _ in recent], self.total, now), _delay(theirs, self.per_host, now)
        )

    def after(self, host: str, now: float) -> "Windows":
        """Count a request to *host* at *now*, and forget those that count no more."""
        return attrs.evolve(self, asked=(*self._recent(now), (now, host)))

    def _recent(self, now: float) -> tuple[tuple[float, str], ...]:
        return tuple(each for each in self.asked if now - each[0] < WINDOW - _GRAIN)


def _delay(times: list[float], limit: int, now: float) -> float:
    return times[-limit] + WINDOW - now if len(times) >= limit else 0.0


def _is_within(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == each or host.endswith(f".{each}") for each in domains)
