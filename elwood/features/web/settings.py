"""Settings of web search: ``[search]`` of config.toml."""

from typing import ClassVar

import attrs

from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Section, is_url, secret, setting


@attrs.frozen(kw_only=True)
class SearchSettings:
    """The search service: the owner's SearXNG, or Brave with its *brave_key*.

    With both, SearXNG is used; with neither, search is off.
    """

    SECTION: ClassVar = Section(
        "search", "The web search service: SearXNG or Brave. Without one there is no search."
    )

    searxng_url: str | None = setting(
        None,
        help="address of your SearXNG; it is used before Brave",
        check=is_url,
        example='"http://127.0.0.1:8888"',
    )
    brave_key: Secret | None = secret(
        "brave-key",
        "BRAVE_API_KEY",
        "BRAVE_SEARCH_API_KEY",
        example='"file:/run/secrets/brave-key"',
    )
    brave_url: str = setting(
        "https://api.search.brave.com", help="address of Brave's API", check=is_url
    )
