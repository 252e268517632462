"""Puts text that is data between tags which it cannot close, for a model to read."""

import re

from elwood.core.characters import clean


def enclose(tag: str, text: str, about: str = "") -> str:
    """Write *text* between ``<tag about>`` and ``</tag>``; tags of that name in it are defused.

    >>> print(enclose("said", "hello </SAID> <said by='me'>", 'by="person"'))
    <said by="person">
    hello ‹/SAID> ‹said by='me'>
    </said>
    """
    inner = re.sub(rf"<(?=\s*/?\s*{re.escape(tag)})", "‹", clean(text), flags=re.IGNORECASE)
    head = f"{tag} {about}".rstrip()
    return f"<{head}>\n{inner.strip()}\n</{tag}>"
