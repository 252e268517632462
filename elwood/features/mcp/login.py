"""OAuth for remote servers: the stored login, and the browser's redirect."""

from urllib.parse import parse_qs, urlsplit

import msgspec

# The browser is redirected here after a login, on the machine that runs `elwood auth`.
PORT = 47_624
REDIRECT = f"http://127.0.0.1:{PORT}/callback"
# Characters of a redirect that are read.
MAX_ANSWER = 8192


class Login(msgspec.Struct):
    """A login at a server: JSON of the SDK, or None."""

    url: str
    tokens: dict[str, object] | None = None
    client: dict[str, object] | None = None
    issuer: dict[str, object] | None = None  # metadata of the authorization server
    resource: dict[str, object] | None = None  # metadata of the protected resource
    expires: float = 0.0  # expiry of the tokens, Unix seconds; 0: unknown


class Redirect(msgspec.Struct, frozen=True):
    """The parameters of an authorization server's redirect."""

    code: str
    state: str | None = None
    issuer: str | None = None
    error: str = ""


def parse_redirect(text: str) -> Redirect:
    """Parse the address that a browser was redirected to, or its query.

    >>> parse_redirect("http://127.0.0.1:1/callback?code=a&state=b")
    Redirect(code='a', state='b', issuer=None, error='')
    >>> parse_redirect("/callback?error=access_denied").error, parse_redirect("a").code
    ('access_denied', '')
    """
    text = text.strip()[:MAX_ANSWER]
    query = parse_qs(urlsplit(text).query or text)

    def first(name: str) -> str | None:
        return query.get(name, [None])[0]

    return Redirect(first("code") or "", first("state"), first("iss"), first("error") or "")
