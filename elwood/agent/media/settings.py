from typing import ClassVar

import attrs

from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Section, between, is_url, secret, setting


@attrs.frozen(kw_only=True)
class MediaSettings:
    """How many received files are kept, and how recordings are transcribed.

    *budget* is in megabytes, *timeout* in seconds.  Without *transcription_url* and
    *transcription_command* there is no transcription; the command has precedence.
    """

    SECTION: ClassVar = Section(
        "media", "Pictures, documents and voice messages that people send. See docs/operating.md."
    )

    budget: int = setting(
        200,
        help="megabytes that are kept of one conversation's files; the oldest make room",
        check=between(20, 100_000),
    )
    transcription_url: str = setting(
        "",
        help="address of an API like OpenAI's, which writes voice messages down; "
        "`/audio/transcriptions` is added",
        check=is_url,
        example='"https://api.openai.com/v1"',
    )
    transcription_model: str = setting("whisper-1", help="the model that it is to take")
    transcription_key: Secret | None = secret(
        "transcription-key",
        "TRANSCRIPTION_API_KEY",
        example='"file:/run/secrets/transcription-key"',
    )
    transcription_command: tuple[str, ...] = setting(
        (),
        help="instead: a program of this machine and its arguments, run without a shell; the path "
        "of the recording is added, and what it prints are the words",
        example='["/usr/local/bin/write-down", "--language", "en"]',
    )
    timeout: float = setting(
        120.0, help="seconds to write down one recording at most", check=between(1, 900)
    )
