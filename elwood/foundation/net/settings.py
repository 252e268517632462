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
            raise ValueError(f"{text!r} is not the name of a domain, as example.org is")
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
    per_minute_sent: int = setting(
        10, help="most requests in a minute that send something", check=at_least(1)
    )
