"""Knows what a secret is and how to take secrets out of a text before anybody reads it."""

import re
from collections.abc import Iterable
from typing import NoReturn

import attrs
import msgspec

from elwood.foundation.secrets.known_secrets import KnownSecrets, known
from elwood.foundation.secrets.patterns import FoundSecret, in_context, private_keys, tokens

MASK = "***"


@attrs.frozen(repr=False, str=False)
class Secret:
    """A text that must not be shown: prints as ``***`` however it is printed.

    Equal and hashed by value.  It cannot be pickled, so that it does not end up in a file or in
    another process by accident.

    >>> key = Secret("hunter2")
    >>> f"{key!r} {key} {key:>5}"
    '*** ***   ***'
    >>> key.reveal()
    'hunter2'
    """

    _value: str

    def reveal(self) -> str:
        """Return the text itself; only for handing it to the one it is meant for."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied; hand the object itself on")


def redact(text: str, secrets: Iterable[Secret]) -> str:
    """Return *text* with every one of *secrets*, and whatever looks like one, made ``***``.

    Known values are found in every usual spelling, also spread over lines or in colours; tokens
    and private keys by their form; passwords by what stands in front of them.  Takes time in
    proportion to the length of *text*.

    >>> redact("key=hunter2&q=1", [Secret("hunter2")])
    'key=***&q=1'
    >>> redact("Authorization: Bearer abcdefghijklmnop", [])
    'Authorization: Bearer ***'
    """
    return _masked(text, _find(text, _known(secrets)), 0, len(text))


def redact_partial(text: str, secrets: Iterable[Secret]) -> str:
    """Return what may be shown now of *text*, which is still growing; what is shown only grows.

    Held back are the last word, as it may become a token (one in other letters than ours cannot);
    a secret at the end, as it may go on in the next line; and what may be the beginning of one of
    *secrets*.

    >>> redact_partial("The key is sk-an", []), redact_partial("The key is a secret. ", [])
    ('The key is ', 'The key is a secret. ')
    >>> redact_partial("password: hunter2", []), redact_partial("password: hunter2 ", [])
    ('password: ', 'password: ')
    >>> redact_partial("password: hunter2 and ", [])
    'password: *** and '
    """
    known_ = _known(secrets)
    word = len(text)
    while word and "!" <= text[word - 1] <= "~":
        word -= 1
    cut = min(word, known_.unfinished(text))
    settled = len(text[:cut].rstrip())
    found = _find(text, known_)
    return _masked(text, found, 0, min([cut, *(f.start for f in found if f.end >= settled)]))


def reveals(text: str, secrets: Iterable[Secret]) -> bool:
    """Tell whether *text*, which is about to leave, holds one of *secrets* in any spelling.

    A yes is a refusal: what asks for it to be sent is not to be trusted with the rest either.

    >>> reveals("https://example.org/?q=aHVudGVyMi1odW50ZXIz", [Secret("hunter2-hunter3")])
    True
    """
    return next(_known(secrets).spans(text), None) is not None


class Redactor:
    """Takes the secrets of one configuration out of texts; calling it is `redact`."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._secrets = tuple(secrets)

    def __call__(self, text: str) -> str:
        """Return *text* without secrets."""
        return redact(text, self._secrets)

    def partial(self, text: str) -> str:
        """Return what may be shown now of *text*, which is still growing."""
        return redact_partial(text, self._secrets)

    def reveals(self, text: str) -> bool:
        """Tell whether *text*, which is about to leave, holds a secret."""
        return reveals(text, self._secrets)


def _known(secrets: Iterable[Secret]) -> KnownSecrets:
    return known(tuple(secret.reveal() for secret in secrets))


def _find(text: str, known_: KnownSecrets, at: int = 0) -> list[FoundSecret]:
    """Find all that begins in *text* at *at* or later, in order."""
    found = [
        FoundSecret(start, start, end, "secret") for start, end in known_.spans(text) if start >= at
    ]
    found += tokens(text, at)
    found += private_keys(text, at)
    found += in_context(text, at)
    return sorted(found, key=lambda one: one.begin)


def _masked(text: str, found: Iterable[FoundSecret], start: int, end: int) -> str:
    """Return *text[start:end]* with what was found in it made ``***``; the rest is not cut."""
    pieces = []
    for one in sorted((f.start, f.end) for f in found if f.kind and f.end <= end):
        if one[0] >= start:
            pieces += [text[start : one[0]], MASK]
        start = max(start, one[1])
    return "".join([*pieces, text[start:end]])


class Clean(msgspec.Struct, frozen=True):
    """The message holds no credential."""


class Masked(msgspec.Struct, frozen=True):
    """The message holds a credential; *text* is the message without it."""

    text: str


class Credential(msgspec.Struct, frozen=True):
    """The message is a credential, of this *kind*, and nothing else."""

    kind: str


# Words that may stand on the same line as a credential, its name above all, before the line says
# something of its own: `export TOKEN=…`, `my key: …`.
_LABEL = 3
_LETTERS = re.compile(r"[^\W_]+")


def screen(text: str) -> Clean | Masked | Credential:
    """Tell whether somebody typed a credential, which belongs into a file and not into a chat.

    Goes by form and surroundings only; known values are for `redact`.

    >>> screen("what is in 3f786850e387550fdab836ed7e6dc881de23001b?")
    Clean()
    >>> screen("use the password=hunter2 there, please, and tell me")
    Masked(text='use the password=*** there, please, and tell me')
    >>> screen("DB_PASSWORD=hunter2")
    Credential(kind='password')
    """
    found = [one for one in _find(text, known(())) if one.kind]
    if not found:
        return Clean()
    masked = _masked(text, found, 0, len(text))
    lines = [line for line in masked.splitlines() if line.strip()]
    if all(MASK in line and len(_LETTERS.findall(line)) <= _LABEL for line in lines):
        return Credential(found[0].kind)
    return Masked(masked)
