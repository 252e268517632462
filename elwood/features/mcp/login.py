"""OAuth for servers elsewhere: what of a login is kept, and how a browser's answer is read."""

from urllib.parse import parse_qs, urlsplit

import msgspec

# Where a browser is sent back to after a login, on the machine where `elwood auth` runs.
PORT = 47_624
REDIRECT = f"http://127.0.0.1:{PORT}/callback"
# Characters of what a browser sends, or a person pastes.
MAX_ANSWER = 8192


class Login(msgspec.Struct):
    """What a login at the server *url* came to: JSON of the SDK's, or None.

    *issuer* and *resource* are the metadata that the tokens are bound to.  Tokens are good until
    *expires*, Unix seconds; 0 is not known.
    """

    url: str
    tokens: dict[str, object] | None = None
    client: dict[str, object] | None = None
    issuer: dict[str, object] | None = None
    resource: dict[str, object] | None = None
    expires: float = 0.0


class Returned(msgspec.Struct, frozen=True):
    """What an authorization server sent back by way of the browser."""

    code: str
    state: str | None = None
    issuer: str | None = None
    error: str = ""


def returned(text: str) -> Returned:
    """Read the address that a browser was sent back to, or its query.

    >>> returned("http://127.0.0.1:1/callback?code=a&state=b")
    Returned(code='a', state='b', issuer=None, error='')
    >>> returned("/callback?error=access_denied").error, returned("a").code
    ('access_denied', '')
    """
    text = text.strip()[:MAX_ANSWER]
    query = parse_qs(urlsplit(text).query or text)

    def first(name: str) -> str | None:
        return query.get(name, [None])[0]

    return Returned(first("code") or "", first("state"), first("iss"), first("error") or "")
