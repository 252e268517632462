"""What a call would do, as the policy sees it: one small record per kind of act."""

from typing import Literal

import attrs

Risk = Literal["read", "write", "destructive"]
# What the owner's rules say about a host: on their list, to be asked about, forbidden, or nothing.
Destination = Literal["allowed", "ask", "blocked", "open"]


@attrs.frozen
class ReadFiles:
    """Look at files of the workspace; whoever is answered learns of them."""


@attrs.frozen
class WriteFile:
    """Write a file of the workspace.

    *protected* files instruct Elwood or start programs; *foreign* ones exist already and were
    not written by Elwood in this conversation.
    """

    protected: bool = False
    foreign: bool = False


@attrs.frozen
class RunCommand:
    """Run a command in the sandbox, judged by its words (`core.commands`)."""

    judged: Literal["safe", "unclear", "forbidden"]
    why: str = ""


@attrs.frozen
class FetchUrl:
    """Read a page.  *url* is canonical; *extra* counts the characters of its path and query."""

    url: str
    host: str
    destination: Destination = "open"
    extra: int = 0


@attrs.frozen
class SearchWeb:
    """Ask a search engine.  *quotes* says that the words contain some of the private data."""

    quotes: bool = False


@attrs.frozen
class SendRequest:
    """Change something on a web server."""

    host: str
    destination: Destination = "open"


@attrs.frozen
class SendMessage:
    """Say something, to the owner, to a group, or to a third person."""

    to: Literal["owner", "group", "person"]


@attrs.frozen
class AskOwner:
    """Put a question to the owner."""


@attrs.frozen
class SaveMemory:
    """Keep a fact for later conversations."""


@attrs.frozen
class SearchMemory:
    """Look facts up."""


@attrs.frozen
class Schedule:
    """Have something done later."""


@attrs.frozen
class Reschedule:
    """Pause, resume or cancel a task; *own* is the one whose run this is."""

    own: bool = False


@attrs.frozen
class CreateTool:
    """Make or change a tool or a skill of Elwood's own."""


@attrs.frozen
class CallRemote:
    """Call a tool of an MCP server, of the class our catalogue gives it."""

    risk: Risk
    open_world: bool = False


@attrs.frozen
class Approve:
    """Decide in the owner's place."""


@attrs.frozen
class Other:
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
