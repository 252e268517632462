"""What can be set about web search; free of Trio, for commands that only look."""

import attrs

from elwood.foundation.secrets.redaction import Secret


@attrs.frozen(kw_only=True)
class SearchSettings:
    """Who searches the web for us: a SearXNG of the owner's, or Brave by its *brave_key*.

    With both, SearXNG; with neither, nothing is searched.
    """

    searxng_url: str | None = None
    brave_key: Secret | None = None
    brave_url: str = "https://api.search.brave.com"
