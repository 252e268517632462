"""Messages that stop a turn, by language (ISO 639-1)."""

import unicodedata
from collections.abc import Iterable

WORDS = {
    "en": "stop, stop it, wait, cancel, abort, halt",
    "de": "stop, stopp, halt, warte, warte mal, abbrechen, abbruch, hör auf",
    "fr": "stop, arrête, arrêtez, attends, attendez, annule, annuler",
    "es": "para, detente, espera, cancela, cancelar, basta",
    "it": "stop, ferma, fermati, aspetta, annulla, basta",
    "nl": "stop, wacht, wacht even, annuleer, hou op",
    "pt": "pare, para, espera, espere, cancela, cancelar",
    "pl": "stop, stój, czekaj, poczekaj, anuluj, przestań",
    "ru": "стоп, стой, подожди, отмена, отмени, хватит",
    "uk": "стоп, стій, зачекай, почекай, скасуй, досить",
    "tr": "dur, bekle, iptal, iptal et",
    "zh": "停, 停止, 停下, 等等, 等一下, 取消",
    "ja": "止めて, やめて, ストップ, 待って, 中止, キャンセル",
}
# Maximum characters of such a message; longer ones are not compared.
MAX_WORDS = 40


def says_stop(text: str, languages: Iterable[str]) -> bool:
    """Return True if *text* is only such a word, in any spelling.

    >>> says_stop("Hör auf!!", ["en", "de"]), says_stop("don't stop", ["en"])
    (True, False)
    """
    known = (word for language in languages for word in WORDS[language].split(","))
    return len(text) <= MAX_WORDS and _bare(text) in map(_bare, known)


def _bare(text: str) -> str:
    """Return only the letters, without case and accents."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(one for one in apart if unicodedata.category(one) != "Mn")
    return " ".join("".join(one if one.isalpha() else " " for one in letters).split())
