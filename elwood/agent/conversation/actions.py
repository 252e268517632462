"""What a call would do, as the policy sees it: one small record per kind of act."""

from typing import Literal

import msgspec

Risk = Literal["read", "write", "destructive"]
# What the owner's rules say about a host: on their list, to be asked about, forbidden, or nothing.
Destination = Literal["allowed", "ask", "blocked", "open"]


class ReadFiles(msgspec.Struct, frozen=True):
    """Look at files of the workspace; whoever is answered learns of them."""


class WriteFile(msgspec.Struct, frozen=True):
    """Write a file of the workspace.

    *protected* files instruct Elwood or start programs; *foreign* ones exist already and were
    not written by Elwood in this conversation.
    """

    protected: bool = False
    foreign: bool = False


class RunCommand(msgspec.Struct, frozen=True):
    """Run a command in the sandbox, judged by its words."""

    judged: Literal["safe", "unclear", "forbidden"]
    why: str = ""


class FetchUrl(msgspec.Struct, frozen=True):
    """Read a page.  *url* is canonical; *extra* counts the characters of its path and query."""

    url: str
    host: str
    destination: Destination = "open"
    extra: int = 0


class SearchWeb(msgspec.Struct, frozen=True):
    """Ask a search engine.  *quotes* says that the words contain some of the private data."""

    quotes: bool = False


class SendRequest(msgspec.Struct, frozen=True):
    """Change something on a web server."""

    host: str
    destination: Destination = "open"


class SendMessage(msgspec.Struct, frozen=True):
    """Say something, to the owner, to a group, or to a third person."""

    to: Literal["owner", "group", "person"]


class AskOwner(msgspec.Struct, frozen=True):
    """Put a question to the owner."""


class SaveMemory(msgspec.Struct, frozen=True):
    """Keep a fact for later conversations."""


class SearchMemory(msgspec.Struct, frozen=True):
    """Look facts up."""


class Schedule(msgspec.Struct, frozen=True):
    """Have something done later."""


class Reschedule(msgspec.Struct, frozen=True):
    """Pause, resume or cancel a task; *own* is the one whose run this is."""

    own: bool = False


class CreateTool(msgspec.Struct, frozen=True):
    """Make or change a tool or a skill of Elwood's own."""


class CallRemote(msgspec.Struct, frozen=True):
    """Call a tool of an MCP server, of the class our catalogue gives it."""

    risk: Risk
    open_world: bool = False


class Approve(msgspec.Struct, frozen=True):
    """Decide in the owner's place."""


class Other(msgspec.Struct, frozen=True):
    """Anything else, of which only the risk is known."""

    risk: Risk


Action = (
    ReadFiles
    | WriteFile
    | RunCommand
    | FetchUrl
    | SearchWeb
    | SendRequest
    | SendMessage
    | AskOwner
    | SaveMemory
    | SearchMemory
    | Schedule
    | Reschedule
    | CreateTool
    | CallRemote
    | Approve
    | Other
)
