"""Puts text that is data between tags which it cannot close, for a model to read."""

import re

from elwood.foundation.text.characters import clean

# What could begin a tag, with blanks wherever a lenient reader might pass over them.
_TAG = re.compile(r"<(?=\s*/?\s*\w)")


def wrap_untrusted(tag: str, text: str, about: str = "") -> str:
    """Write *text* between ``<tag about>`` and ``</tag>``; tags in it are written as entities.

    >>> print(wrap_untrusted("said", "a <- b </SAID> < c>", 'by="person"'))
    <said by="person">
    a <- b &lt;/SAID> &lt; c>
    </said>
    """
    inner = _TAG.sub("&lt;", clean(text)).strip()
    head = f"{tag} {about}".rstrip()
    return f"<{head}>\n{inner}\n</{tag}>"
