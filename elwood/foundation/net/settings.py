"""Settings of web access.  It imports no network code, because every command loads it."""

from collections.abc import Iterable
from typing import ClassVar

import attrs

from elwood.foundation.net.urls import PORTS, domain
from elwood.foundation.settings import Section, at_least, is_port, setting


def _domains(given: Iterable[str]) -> tuple[str, ...]:
    """Normalize domains; raises ValueError for an invalid one."""
    domains = []
    for text in given:
        name = domain(text)
        if name is None:
            raise ValueError(f"{text!r} is not a domain name such as example.org")
        domains.append(name)
    return tuple(domains)


@attrs.frozen(kw_only=True)
class EgressRules:
    """Which web servers Elwood may contact.

    A domain includes all its subdomains.  *blocked* wins over *always_ask*, which wins over
    *allowed*.
    """

    SECTION: ClassVar = Section(
        "egress",
        "Web access. A domain includes its subdomains. `blocked` overrides "
        "`always_ask`, and `always_ask` overrides `allowed`. Elwood never connects "
        "to addresses inside your network.",
    )

    allowed: tuple[str, ...] = setting(
        (),
        help="domains to which Elwood may send data without asking you, in "
        "conversations without strangers' words",
        example='["api.example.org"]',
        converter=_domains,
    )
    always_ask: tuple[str, ...] = setting(
        (), help="domains about which Elwood asks you each time", converter=_domains
    )
    blocked: tuple[str, ...] = setting(
        (),
        help="domains that Elwood never contacts",
        example='["ads.example.com"]',
        converter=_domains,
    )
    ports: tuple[int, ...] = setting(PORTS, help="ports to which Elwood may connect", check=is_port)
    per_minute: int = setting(30, help="maximum requests per minute to one host", check=at_least(1))
    per_minute_all: int = setting(
        120, help="maximum requests per minute to all hosts together", check=at_least(1)
    )
    per_minute_sent: int = setting(
        10, help="maximum requests per minute that send data", check=at_least(1)
    )
