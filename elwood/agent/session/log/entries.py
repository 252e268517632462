"""The entries of a session's log.

The log is the truth: this fold over it is all a session knows.  It is also the tree of the
conversation: each entry's parent is the head at the time it was written, and `Rewound` and
`Resumed` move the head, so a branch is a path back to the root.
"""

import msgspec

from elwood.agent.conversation.calls import Effect, Look, Outcome, Ruling, allows
from elwood.agent.conversation.inbound import Role
from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.message import (
    Assistant,
    FetchedFile,
    Message,
    PendingFile,
    Prompt,
    ReceivedFile,
    Usage,
)
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import RunBounds

# Accepted messages that may wait in one session before it answers Busy.
MAX_WAITING = 20
# Reminders: as many as there can be tasks, which share a session and may come due at once.
MAX_REMINDERS = 200
# Ids remembered so that a redelivered message is not taken twice: far more than can be under way.
MAX_SEEN = 1_000
# Starts of the same inputs after which they are given up as poison.
MAX_ATTEMPTS = 3


class Received(msgspec.Struct, frozen=True, tag="received", rename={"bounds": "errand"}):
    """A message was accepted.  *id* is unique for ever (``tg:<bot>:<update_id>``).

    *message* names the message in its channel, so that an edit can find it; *edits* is that name
    when this is an edit.
    *sent_at* is the sender's time, Unix seconds.  *untrusted* are words that are not the owner's:
    somebody else's, or forwarded ones; those that a *member* says are trusted nevertheless.
    *bounds* (in the log: *errand*) are there if no person typed it: it is a run.  *speaker*
    names who speaks, and their role, where several do; *heard* is what others said there before,
    and not to us.
    *pending* files must still be fetched; *troubles* are what went wrong with those that were.
    *looks* are the receipts of what a task watched and found changed: they stand in no other line.
    """

    id: str
    text: str
    principal: str
    route: Route
    sent_at: float
    message: str | None = None
    edits: str | None = None
    untrusted: bool = False
    bounds: RunBounds | None = None
    files: tuple[ReceivedFile, ...] = ()
    member: bool = False
    speaker: str = ""
    heard: str = ""
    pending: tuple[PendingFile, ...] = ()
    troubles: tuple[str, ...] = ()
    looks: tuple[Look, ...] = ()

    @property
    def parent(self) -> str:
        """The session whose model wrote the text, for a child run; else empty."""
        return self.bounds.parent if self.bounds is not None else ""

    def with_fetched(self, found: FetchedFile) -> "Received":
        """Return the message after its first pending file was fetched as *found*."""
        return msgspec.structs.replace(
            self,
            text="\n".join(filter(None, (self.text.rstrip(), found.words))),
            files=self.files if found.file is None else (*self.files, found.file),
            pending=self.pending[1:],
            troubles=(*self.troubles, found.trouble) if found.trouble else self.troubles,
        )

    @property
    def missing(self) -> str:
        """The kinds of the pending files, in brackets; empty if there are none."""
        kinds = ", ".join(file.kind for file in self.pending)
        return kinds and f"({kinds})"

    @property
    def role(self) -> Role:
        """Whose rights the words have: those of others have a guest's, whoever passes them on."""
        return "admin" if not self.untrusted else "member" if self.member else "guest"


class TurnStarted(msgspec.Struct, frozen=True, tag="turn"):
    """Work on *inputs* begins, for the *attempt*-th time; *text* is what the model is shown.

    *calls* are what waited for the owner and may run now (keys of `Session.pending`).  Work that is
    put down in order is written down as the attempt before: it does not count.  Without *text* the
    inputs are shown by a later `Joined`, when their files were fetched.
    """

    turn: str
    inputs: tuple[str, ...]
    attempt: int
    text: str
    calls: tuple[str, ...] = ()


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """Further inputs became part of a running turn.

    *text* shows the model these and all inputs that it has not been shown yet; without it they wait
    until their files were fetched.
    """

    turn: str
    inputs: tuple[str, ...]
    text: str


class Fetched(msgspec.Struct, frozen=True, tag="fetched"):
    """The first pending file of the message *input*, which belongs to the turn, was fetched.

    Its troubles are told to the sender with what is recorded next.
    """

    turn: str
    input: str
    found: FetchedFile


class Prompted(msgspec.Struct, frozen=True, tag="prompted"):
    """A new epoch: this prompt stands before every message from here on, as sent.

    One that is *blind* looks at no file any more that came before it.
    """

    prompt: Prompt
    blind: bool = False


class Said(msgspec.Struct, frozen=True, tag="said"):
    """A model's complete response.

    *left_out* counts further calls in it that may not run, as they were too many.
    """

    turn: str
    message: Assistant
    usage: Usage
    left_out: int = 0


class Noticed(msgspec.Struct, frozen=True, tag="noticed"):
    """The harness told the model something."""

    turn: str
    text: str


class Reminded(msgspec.Struct, frozen=True, tag="reminded"):
    """A reminder went to the model along with a message; *label* is that of its text.

    *source* names where the text is from, in the words of a question to the owner.  Of reminders
    with the same *key* the newest holds, and it comes again when the model no longer sees it.
    *private* text is compared with what leaves; entries without that field may be private.
    """

    turn: str
    text: str
    label: Label
    source: str = "your notes"
    key: str = ""
    private: bool = True


class CallPending(msgspec.Struct, frozen=True, tag="pending"):
    """The owner is asked about a call; *plan* is the hash of what would run, and how.

    *untrusted* says whether strangers' words had been read by then.
    """

    turn: str
    call: str
    tool: str
    plan: str
    target: str = ""
    untrusted: bool = False


class CallDecided(msgspec.Struct, frozen=True, tag="decided"):
    """*by* decided about a call that was pending with *plan*."""

    turn: str
    call: str
    plan: str
    ruling: Ruling
    by: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return allows(self.ruling)


class Endorsed(msgspec.Struct, frozen=True, tag="endorsed"):
    """The owner trusts what was read from *origins* in this conversation so far."""

    origins: tuple[str, ...]
    by: str


class CallStarted(msgspec.Struct, frozen=True, tag="started"):
    """A tool is about to run: written, and on the disk, before it does anything.

    *plan* is the hash of what runs, *ruling* says who allowed it if anybody had to.
    """

    turn: str
    call: str
    tool: str
    effect: Effect
    target: str = ""
    plan: str = ""
    ruling: str = ""


class CallNested(msgspec.Struct, frozen=True, tag="nested"):
    """The running call *outer* calls *tool*, as the call *call*: its *place*-th, like ``c1.3``.

    *number* is that of the outer call.  One of effect pure has no `CallStarted`, and the end of any
    has only the beginning of its text: that went to the outer tool, not to the model.
    """

    turn: str
    outer: str
    call: str
    tool: str
    arguments: str
    place: int
    number: int = 0


class CallEnded(msgspec.Struct, frozen=True, tag="ended"):
    """A call has its result.  *target* says in a few words what it was about.

    *label* is what the text brings into the conversation, from *origin*; *ruling* as in
    `CallStarted`.  *done* says what was done, if the tool does; one that *forgets* was for words
    that are not to be kept.  *number* is what people call it by, in their conversation, and *at*
    when it ended, in Unix time; *looked* names what it looked at, if it only did that.  *acted* is
    as in `Output`.
    """

    turn: str
    call: str
    tool: str
    outcome: Outcome
    text: str
    target: str = ""
    label: Label = CLEAN
    origin: str = ""
    ruling: str = ""
    done: str = ""
    forgets: bool = False
    number: int = 0
    at: float = 0.0
    looked: str = ""
    acted: bool = False


class Compacted(msgspec.Struct, frozen=True, tag="compacted"):
    """*summary* stands for everything before the path's entry *upto* (exclusive).

    If that lies in the open turn, what people said in it stays nevertheless.
    *why* says what came between if it is none of what was said.
    """

    summary: str
    upto: int
    why: str = ""


class Rewound(msgspec.Struct, frozen=True, tag="rewound"):
    """The head of the conversation moved back to the entry *to*; 0 is the root (``/new``)."""

    to: int


class Replied(msgspec.Struct, frozen=True, tag="replied"):
    """*inputs* have their answer: *text*, with *footer* made from receipts.

    *turn* is None for a slash command.  *failed* says that the answer is a statement of failure;
    a *quiet* one is kept and not sent: nobody waits for it.  *buttons* type what stands on them;
    *pages* are buttons by what stands on them, with the command that each types.  *untrusted* is
    whether strangers' words had been read, which may have chosen the links in it.
    """

    reply: str
    turn: str | None
    inputs: tuple[str, ...]
    route: Route
    text: str
    footer: str = ""
    failed: bool = False
    quiet: bool = False
    buttons: tuple[str, ...] = ()
    pages: dict[str, str] = {}
    untrusted: bool = False


class Posting(msgspec.Struct, frozen=True, tag="posting"):
    """Part *part* of a reply is about to be sent, for the *attempt*-th time."""

    reply: str
    part: int
    attempt: int


class Posted(msgspec.Struct, frozen=True, tag="posted"):
    """Part *part* has arrived, as the channel's message *message*."""

    reply: str
    part: int
    message: str


class Delivered(msgspec.Struct, frozen=True, tag="delivered"):
    """A reply is done with: arrived, or *why* it never can."""

    reply: str
    why: str = ""


class Observed(msgspec.Struct, frozen=True, tag="observed"):
    """The observer has looked at what ends with the entry *upto*, and learned so many *facts*.

    That is the present line so far, or a line that was put away before it was looked at.
    """

    upto: int
    facts: int


class Node(msgspec.Struct, frozen=True):
    """One message on the present path of the conversation, and the entry that brought it.

    *tokens* is an estimate; *begins* says that a person's message begins a turn with it.  *own* are
    the places of the owner's words in its text, from and to; None if they are not known.
    """

    seq: int
    message: Message
    tokens: int
    begins: bool = False
    own: tuple[tuple[int, int], ...] | None = None


class Branched(msgspec.Struct, frozen=True, tag="branched"):
    """The present line is kept as it is here, under *name* (may be empty), and goes on."""

    name: str = ""


class Resumed(msgspec.Struct, frozen=True, tag="resumed"):
    """The head moved to the entry *to*, as if nothing had happened since.

    *number* is the branch whose end that is, 0 if something was taken back.  What was known there
    stands here, read from the log when the head moved: the first *keep* messages of the line that
    was left, then *nodes*; *prompt*, unless it is the *same_prompt*; the label, by *sources* and
    *private*; and what else belongs to a line (`branch.Branch`).
    """

    to: int
    number: int = 0
    keep: int = 0
    nodes: tuple[Node, ...] = ()
    prompt: Prompt | None = None
    same_prompt: bool = False
    sources: tuple[str, ...] = ()
    private: bool = False
    named: tuple[str, ...] = ()
    private_calls: tuple[str, ...] = ()


class Retried(msgspec.Struct, frozen=True, tag="retried"):
    """The command *input* stands for *text* from here on: what was taken back, or a skill's use.

    *untrusted* says that not all of it was the owner's.  *notice* tells the model what had been
    done; that comes from a line that is gone, with its label: *origins*, *private*.
    """

    input: str
    text: str
    untrusted: bool = False
    notice: str = ""
    origins: tuple[str, ...] = ()
    private: bool = False
    files: tuple[ReceivedFile, ...] = ()
    pending: tuple[PendingFile, ...] = ()


class Archived(msgspec.Struct, frozen=True, tag="archived"):
    """The conversation was quiet for long: the next message begins a new one."""


class ModelChosen(msgspec.Struct, frozen=True, tag="model"):
    """The owner wants this *model* to think in this conversation; empty: the usual one."""

    model: str


Step = CallPending | CallStarted | CallEnded
"""What becomes of a call, but for decisions."""

Entry = (
    Received
    | TurnStarted
    | Joined
    | Fetched
    | Prompted
    | Said
    | Noticed
    | Reminded
    | CallPending
    | CallDecided
    | Endorsed
    | CallStarted
    | CallNested
    | CallEnded
    | Compacted
    | Rewound
    | Replied
    | Posting
    | Posted
    | Delivered
    | Observed
    | Branched
    | Resumed
    | Retried
    | Archived
    | ModelChosen
)
