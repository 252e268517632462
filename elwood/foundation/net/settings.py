"""What can be set about the web.  Imports no network: every command reads it."""

from collections.abc import Iterable
from typing import ClassVar

import attrs

from elwood.foundation.net.urls import PORTS, domain
from elwood.foundation.settings import Section, at_least, is_port, setting


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
    all, *per_minute_sent* those that send something.
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
