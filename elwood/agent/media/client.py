"""Fetch the files that people send: store them, read them, and transcribe recordings."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path, PurePath

import msgspec
import trio

from elwood.agent.conversation.message import FetchedFile, PendingFile, ReceivedFile
from elwood.agent.media.settings import MediaSettings
from elwood.agent.media.store import FOLDER, FileKeeper, add_remark, display_name
from elwood.foundation.net.http import Client, Interrupted, Unreachable
from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.command import Command, Executor, SandboxFailed
from elwood.foundation.sandbox.launched import Launched
from elwood.foundation.sandbox.layout import SandboxContext
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.characters import clean
from elwood.foundation.text.lines import escape_names

# Megabytes of memory for a program that reads a document or transcribes a recording.
MEMORY = 8000
# Maximum characters of a transcript: hours of talk.
MAX_TRANSCRIPT = 50_000
NOBODY = (
    "speech recognition is off: set media.transcription_url or media.transcription_command in "
    "config.toml"
)

# Maximum of files that one channel downloads and reads at a time, for all its conversations: each
# is in memory.  A conversation fetches one after another.
FETCHES = 8
# Maximum of recordings that are transcribed at a time: each may be a program on this machine.
# Downloads do not wait for them.
TRANSCRIPTIONS = 4
# Suffixes of the recordings that services transcribe.
RECORDINGS = (".flac", ".m4a", ".mp3", ".oga", ".ogg", ".opus", ".wav")
# Maximum bytes of a recording that is sent to a service; larger files are not downloaded.
MAX_RECORDING = 100 << 20
NOT_FETCHED = "I could not download the {} ({}). Please send it again, or in another form."
NOT_HEARD = "I could not transcribe the {}: {}. I saved the recording as {}."
NO_SPEECH = (
    "I cannot understand {}s yet; please type your message. (My operator can turn on "
    "speech recognition with media.transcription_url or media.transcription_command.) I saved the "
    "recording as {}."
)


class NotFetched(Exception):
    """A channel cannot download a file, after all retries; the text explains it to the sender."""


Download = Callable[[PendingFile], Awaitable[bytes]]
"""Downloads a file from its channel.  Raises NotFetched."""


class FileFetcher:
    """Fetches the files of one channel's messages: *download* gets them, *keeper* stores them.

    Fetching a file twice stores it once.
    """

    def __init__(
        self, keeper: FileKeeper, download: Download, settings: MediaSettings, client: Client
    ) -> None:
        self._keeper = keeper
        self._download = download
        self._settings = settings
        self._client = client
        self._fetches = trio.CapacityLimiter(FETCHES)
        self._transcriptions = trio.CapacityLimiter(TRANSCRIPTIONS)

    async def fetch(self, session: str, pending: PendingFile) -> FetchedFile:
        keeper, kind = self._keeper, pending.kind
        is_heard = pending.is_speech or self._is_recording(pending.name)
        try:
            async with self._fetches:
                data = await self._download(pending)
                file, removed = await keeper.keep(session, pending.name, kind, data)
                if not is_heard:
                    file = await keeper.understand(session, file, data)
        except (NotFetched, PathRefused, Unconfined) as error:
            return FetchedFile(trouble=NOT_FETCHED.format(kind, error))
        trouble = ""
        if removed:
            names = [display_name(f"{FOLDER}/{session}/{name}") for name in removed]
            trouble = "The files of this conversation took up all their space, so I deleted the "
            trouble += f"oldest: {escape_names(names)}."
        if not is_heard:
            return FetchedFile(file=file, trouble=trouble)
        del data  # many recordings may wait
        if not pending.is_speech:
            return FetchedFile(file=await self._add_transcript(session, file), trouble=trouble)
        file = msgspec.structs.replace(file, untrusted=False)
        words = ""
        try:
            async with self._transcriptions:
                words = await self._transcribe(file)
        except (NotUnderstood, PathRefused, Unconfined) as error:
            why = NOT_HEARD.format(kind, error, file.path)
            if str(error) == NOBODY:
                why = NO_SPEECH.format(kind, file.path)
            trouble = "\n".join(filter(None, (trouble, why)))
        else:
            minutes, seconds = divmod(pending.duration, 60)
            words = f"[machine transcript of a {kind}, {minutes}:{seconds:02}]\n{words}"
        return FetchedFile(file=file, words=words, trouble=trouble)

    def _is_recording(self, name: str) -> bool:
        """Return True for a file with speech or music, if it can be transcribed."""
        settings = self._settings
        can_hear = bool(settings.transcription_command or settings.transcription_url)
        return can_hear and PurePath(name).suffix.lower() in RECORDINGS

    async def _add_transcript(self, session: str, file: ReceivedFile) -> ReceivedFile:
        """Add the transcript of a recording that is not a message of its sender."""
        try:
            async with self._transcriptions:
                words = await self._transcribe(file)
            file = add_remark(file, "transcribed by a machine")
            return await self._keeper.add_text(session, file, words)
        except (NotUnderstood, PathRefused, Unconfined) as error:
            return add_remark(file, f"it could not be transcribed: {error}")

    async def _transcribe(self, file: ReceivedFile) -> str:
        """Return the words of a recording.  Raises NotUnderstood, PathRefused, Unconfined."""
        keeper, data = self._keeper, b""
        if not self._settings.transcription_command:  # a command reads the file itself
            data = await keeper.blocking(partial(keeper.root.read, file.path, MAX_RECORDING))
        path = keeper.root.path / file.path
        return await write_down(self._settings, self._client, keeper.child, path, data)


class NotUnderstood(Exception):
    """A recording could not be transcribed; the text explains it to its sender."""


class _Transcript(msgspec.Struct):
    text: str


async def write_down(
    settings: MediaSettings, client: Client, child: Executor, recording: Path, data: bytes
) -> str:
    """Transcribe *recording*, a file with the content *data*.  Raises NotUnderstood."""
    try:
        if settings.transcription_command:
            argv = (*settings.transcription_command, str(recording))
            command = Command(argv=argv, timeout=settings.timeout, merge=False)
            done = await child.run(command)
            if done.code != 0:
                how = "took too long" if done.timed_out else f"failed with exit code {done.code}"
                raise NotUnderstood(f"the transcription program {how}")
            text = done.output.decode("utf-8", "replace")
        elif settings.transcription_url:
            with trio.fail_after(settings.timeout):
                text = await _request_transcript(settings, client, recording.name, data)
        else:
            raise NotUnderstood(NOBODY)
    except SandboxFailed as error:
        raise NotUnderstood(f"the transcription program did not start: {error}") from error
    except (Unreachable, Interrupted) as error:
        raise NotUnderstood(f"the transcription service failed: {error.why}") from error
    except trio.TooSlowError as error:
        raise NotUnderstood("the transcription service took too long") from error
    if not (text := clean(text).strip()):
        raise NotUnderstood("it contains no words")
    return text[:MAX_TRANSCRIPT]


async def _request_transcript(
    settings: MediaSettings, client: Client, name: str, data: bytes
) -> str:
    key = settings.transcription_key
    if name.lower().endswith(".opus"):
        name += ".ogg"  # its format; services refuse its suffix
    answer = await client.post_form(
        f"{settings.transcription_url.rstrip('/')}/audio/transcriptions",
        {"model": settings.transcription_model, "response_format": "json"},
        ("file", name, data),
        headers={"authorization": f"Bearer {key.reveal()}"} if key else {},
        read_timeout=settings.timeout,
    )
    try:
        if answer.status == 200:
            return msgspec.json.decode(answer.body, type=_Transcript).text
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    raise NotUnderstood(f"the transcription service returned no words (HTTP {answer.status})")


def file_keeper(
    media: MediaSettings, workspace: Root, state: Path, blocking: Blocking
) -> FileKeeper:
    """Build the keeper of received files; programs that read them run with limits."""
    limits = SandboxSettings(memory=MEMORY)
    context = SandboxContext(
        workspace=workspace.path, state=state, settings=limits, blocking=blocking
    )
    return FileKeeper(workspace, blocking, media.budget << 20, Launched(context, "direct"))
