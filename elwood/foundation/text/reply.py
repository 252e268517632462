"""A reply as the reader gets it: the model's text, and below it what really happened."""

from elwood.foundation.text.characters import clean, utf16_length
from elwood.foundation.text.markdown import Entity, Rich, to_entities
from elwood.foundation.text.splitting import split


def parts(text: str, footer: str) -> tuple[Rich, ...]:
    """Cut a reply into messages; the same reply always gives the same ones.

    The footer is made from receipts, so it is set apart as a quote and never read as Markdown.
    """
    rich = to_entities(text)
    footer = clean(footer)
    if footer:
        start = utf16_length(rich.text) + 2 if rich.text else 0
        quote = Entity("blockquote", start, utf16_length(footer))
        joined = f"{rich.text}\n\n{footer}" if rich.text else footer
        rich = Rich(joined, (*rich.entities, quote))
    return split(rich)
