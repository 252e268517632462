from typing import ClassVar

import attrs

from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Section, between, is_url, secret, setting


@attrs.frozen(kw_only=True)
class MediaSettings:
    """Limits for received files, and how recordings are transcribed.

    *budget* is in megabytes, *timeout* in seconds.  Without *transcription_url* and
    *transcription_command* there is no transcription; the command has precedence.
    """

    SECTION: ClassVar = Section(
        "media",
        "Pictures, documents and voice messages that people send. See docs/guides/channels.md.",
    )

    budget: int = setting(
        200,
        help="megabytes for the files of one conversation; Elwood deletes the oldest "
        "files beyond that",
        check=between(20, 100_000),
    )
    transcription_url: str = setting(
        "",
        help="address of an OpenAI-compatible API that transcribes voice messages; "
        "Elwood adds `/audio/transcriptions`",
        check=is_url,
        example='"https://api.openai.com/v1"',
    )
    transcription_model: str = setting("whisper-1", help="model for the transcription")
    transcription_key: Secret | None = secret(
        "transcription-key",
        "TRANSCRIPTION_API_KEY",
        example='"file:/run/secrets/transcription-key"',
    )
    transcription_command: tuple[str, ...] = setting(
        (),
        help="instead of an API: a local program with its arguments, run without a "
        "shell; Elwood adds the path of the recording and reads the transcript "
        "from stdout",
        example='["/usr/local/bin/write-down", "--language", "en"]',
    )
    timeout: float = setting(
        120.0,
        help="seconds that the transcription of one recording may take",
        check=between(1, 900),
    )
