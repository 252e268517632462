"""Has recordings written down, by a service or a program of this machine; and what keeps files."""

from functools import partial
from pathlib import Path

import msgspec
import trio

from elwood.agent.media.settings import MediaSettings
from elwood.agent.media.store import FileKeeper
from elwood.foundation.net.http import Client, Interrupted, Unreachable
from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.command import Command, Executor, SandboxFailed
from elwood.foundation.sandbox.launched import Launched
from elwood.foundation.sandbox.layout import SandboxContext
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.storage.files import Root
from elwood.foundation.text.characters import well_formed

# Megabytes of data for a program that reads a document, or writes a recording down.
MEMORY = 8000
# Characters of a transcript: hours of talk.
MAX_TRANSCRIPT = 50_000
NOBODY = (
    "nobody is set up to write it down: set media.transcription_url or "
    "media.transcription_command in config.toml"
)


class NotUnderstood(Exception):
    """Nobody knows what is said in a recording; the text says why, for its sender."""


class _Written(msgspec.Struct):
    text: str


async def write_down(
    settings: MediaSettings, client: Client, child: Executor, recording: Path, data: bytes
) -> str:
    """Return what is said in *recording*, a file that holds *data*.  Raises NotUnderstood."""
    try:
        if settings.transcription_command:
            argv = (*settings.transcription_command, str(recording))
            command = Command(argv=argv, timeout=settings.timeout, merge=False)
            done = await child.run(command)
            if done.code != 0:
                how = "took too long" if done.timed_out else f"failed with exit code {done.code}"
                raise NotUnderstood(f"media.transcription_command {how}")
            text = done.output.decode("utf-8", "replace")
        elif settings.transcription_url:
            with trio.fail_after(settings.timeout):
                text = await _asked(settings, client, recording.name, data)
        else:
            raise NotUnderstood(NOBODY)
    except SandboxFailed as error:
        raise NotUnderstood(f"media.transcription_command did not run: {error}") from error
    except (Unreachable, Interrupted) as error:
        raise NotUnderstood(f"the transcription service failed: {error.why}") from error
    except trio.TooSlowError as error:
        raise NotUnderstood("the transcription service took too long") from error
    if not (text := well_formed(text).strip()):
        raise NotUnderstood("no words were heard in it")
    return text[:MAX_TRANSCRIPT]


async def _asked(settings: MediaSettings, client: Client, name: str, data: bytes) -> str:
    key = settings.transcription_key
    answer = await client.post_form(
        f"{settings.transcription_url.rstrip('/')}/audio/transcriptions",
        {"model": settings.transcription_model, "response_format": "json"},
        ("file", name, data),
        headers={"authorization": f"Bearer {key.reveal()}"} if key else {},
        read_timeout=settings.timeout,
    )
    try:
        if answer.status == 200:
            return msgspec.json.decode(answer.body, type=_Written).text
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    raise NotUnderstood(f"the transcription service gave no words (HTTP {answer.status})")


def file_keeper(
    media: MediaSettings, workspace: Root, state: Path, blocking: Blocking, client: Client
) -> FileKeeper:
    """Make what keeps the files of messages; programs that read them run with limits."""
    limits = SandboxSettings(memory=MEMORY)
    context = SandboxContext(
        workspace=workspace.path, state=state, settings=limits, blocking=blocking
    )
    child = Launched(context, "direct")
    listen = partial(write_down, media, client, child)
    return FileKeeper(workspace, blocking, media.budget << 20, child, listen)
