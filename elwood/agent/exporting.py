"""Carries out ``/export``: writes the conversation into a file, and gives it to the person."""

from datetime import datetime
from functools import partial
from typing import get_args

from elwood.agent.session_log import SessionLog
from elwood.agent.surroundings import Surroundings
from elwood.core.export import Format, written
from elwood.core.transcript import label, transcript
from elwood.runtime import Blocking
from elwood.store.confined import PathRefused, Unconfined
from elwood.store.files import Root

# Where the files go, in the workspace.
FOLDER = "exports"


class Exports:
    """Writes files into the workspace beneath *root*."""

    def __init__(self, root: Root, blocking: Blocking) -> None:
        self._root = root
        self._blocking = blocking

    async def __call__(self, name: str, content: str, untrusted: bool) -> str:
        """Write a file; return its path in the workspace.  Raises PathRefused and Unconfined."""
        path = f"{FOLDER}/{name}"
        data = content.encode()
        await self._blocking(lambda: self._root.write(path, data, untrusted=untrusted))
        return path


async def export(given: str, id_: str, log_: SessionLog, house: Surroundings) -> str:
    """Write the present conversation of the session *id_*; return what to tell the person."""
    formats = {name: name for name in get_args(Format)}
    format_: Format | None = formats.get(given)
    if format_ is None:
        return "Say which kind of file: /export md or /export html"
    items = await log_.look_back(partial(transcript, id_, strip=house.strip))
    if not items:
        return "Nothing was said here yet that could be exported."
    when = datetime.fromtimestamp(house.now(), house.zone)
    content = await house.blocking(lambda: written(id_, items, house.zone, format_))
    name = f"{id_}-{when:%Y-%m-%d-%H%M%S}.{format_}"
    return await _give(name, content, label(items).untrusted, house)


async def _give(name: str, content: str, untrusted: bool, house: Surroundings) -> str:
    """Bring the file to the person: by now, put it where they find it."""
    try:
        path = await house.export(name, content, untrusted)
    except (PathRefused, Unconfined) as error:
        return f"The file could not be written: {error}"
    return f"The conversation stands in your workspace, in `{path}`."
