"""The entry types of a session's log.

A session's state is a fold over its log. The log is also the tree of the conversation: each entry's
parent is the head at the time of writing. `Rewound` and `Resumed` move the head, so a branch is a
path back to the root.
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
# Reminders: one per possible task, since tasks share a session and may be due together.
MAX_REMINDERS = 200
# Ids remembered to reject redelivered messages: far more than can be in progress.
MAX_SEEN = 1_000
# Starts of the same inputs before Elwood gives up on the turn.
MAX_ATTEMPTS = 3


class Received(msgspec.Struct, frozen=True, tag="received", rename={"bounds": "errand"}):
    """A message was accepted. *id* is globally unique (``tg:<bot>:<update_id>``).

    *message*: the channel's id of the message, so that an edit can find it. *edits*: the id of the
    edited message. *sent_at*: Unix seconds, by the sender's clock. *untrusted*: the text contains
    words that are not the owner's, for example forwarded ones; with *member* they count as trusted.
    *bounds* (in the log: *errand*): set if this is a run, not a typed message. *speaker*: name and
    role, in a group. *heard*: earlier words of the group that were not addressed to Elwood.
    *pending*: files to fetch. *troubles*: errors of fetched files. *looks*: receipts of the checks
    in which a task found a change; no other entry has them.
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
        """The session whose model wrote the text of a child run; else empty."""
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
        """The kinds of the pending files, in brackets; empty if there are no files."""
        kinds = ", ".join(file.kind for file in self.pending)
        return kinds and f"({kinds})"

    @property
    def role(self) -> Role:
        """The role whose rights apply. Passing on another person's words gives a guest's rights."""
        return "admin" if not self.untrusted else "member" if self.member else "guest"


class TurnStarted(msgspec.Struct, frozen=True, tag="turn"):
    """Work on *inputs* begins, for the *attempt*-th time; the model sees *text*.

    *calls* are approved calls that may run now (keys of `Session.pending`). A turn that is
    suspended in order is recorded with its previous attempt number, so it does not count. If *text*
    is empty, a later `Joined` shows the inputs after their files were fetched.
    """

    turn: str
    inputs: tuple[str, ...]
    attempt: int
    text: str
    calls: tuple[str, ...] = ()


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """Further inputs joined a running turn.

    *text* shows the model all inputs that it has not seen yet. If it is empty, they wait for their
    files.
    """

    turn: str
    inputs: tuple[str, ...]
    text: str


class Fetched(msgspec.Struct, frozen=True, tag="fetched"):
    """The first pending file of the message *input* in this turn was fetched.

    The next recorded entry reports its errors to the sender.
    """

    turn: str
    input: str
    found: FetchedFile


class Prompted(msgspec.Struct, frozen=True, tag="prompted"):
    """A new epoch: from here on, requests begin with this prompt.

    If *blind*, files that came before are not shown to the model again.
    """

    prompt: Prompt
    blind: bool = False


class Said(msgspec.Struct, frozen=True, tag="said"):
    """A model's complete response.

    *left_out* counts calls beyond the limit, which will not run.
    """

    turn: str
    message: Assistant
    usage: Usage
    left_out: int = 0


class Noticed(msgspec.Struct, frozen=True, tag="noticed"):
    """A message from Elwood to the model."""

    turn: str
    text: str


class Reminded(msgspec.Struct, frozen=True, tag="reminded"):
    """A reminder was sent to the model with a message; *label* is the label of its text.

    *source* names the origin of the text, as questions to the owner show it. Of reminders with the
    same *key* the newest is valid; it is sent again when the model no longer sees it. *private*
    text is compared with outgoing text; entries without this field may be private.
    """

    turn: str
    text: str
    label: Label
    source: str = "your notes"
    key: str = ""
    private: bool = True


class CallPending(msgspec.Struct, frozen=True, tag="pending"):
    """The owner was asked about a call; *plan* is the hash of the plan.

    *untrusted*: strangers' words had been read by then.
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
    """The owner trusts the text read from *origins* in this conversation so far."""

    origins: tuple[str, ...]
    by: str


class CallStarted(msgspec.Struct, frozen=True, tag="started"):
    """A tool is about to run. Written and synced before the tool has any effect.

    *plan* is the hash of its plan; *ruling* says who allowed it, if approval was required.
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

    *number* is the number of the outer call. A call of effect pure has no `CallStarted`. Its
    `CallEnded` holds only the beginning of the text, which went to the outer tool, not the model.
    """

    turn: str
    outer: str
    call: str
    tool: str
    arguments: str
    place: int
    number: int = 0


class CallEnded(msgspec.Struct, frozen=True, tag="ended"):
    """A call has its result. *target* is a short description of its subject.

    *label* and *origin* belong to the text; *ruling* is as in `CallStarted`. *done*: the effect, if
    the tool reports one. *forgets*: the call was about words that must not be stored. *number*: its
    number for people, in their conversation. *at*: end, Unix time. *looked*: the
    subject of a call without effects. *acted*, *opens*, *files*: as in `Output`.
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
    opens: tuple[str, ...] = ()
    files: tuple[ReceivedFile, ...] = ()


class Compacted(msgspec.Struct, frozen=True, tag="compacted"):
    """*summary* replaces everything before the path's entry *upto* (exclusive).

    If *upto* is in the open turn, people's messages in that turn stay. *why* is the reason if there
    is no real summary.
    """

    summary: str
    upto: int
    why: str = ""


class Rewound(msgspec.Struct, frozen=True, tag="rewound"):
    """The head of the conversation moved back to the entry *to*; 0 is the root (``/new``)."""

    to: int


class Replied(msgspec.Struct, frozen=True, tag="replied"):
    """*inputs* have their answer: *text*, with *footer* made from receipts.

    *turn* is None for a slash command. *failed*: the answer states a failure. *quiet*: stored but
    not sent, because no person waits for it. *buttons*: labels, each typed as its own command.
    *pages*: button labels with the command that each types. *untrusted*: strangers' words had been
    read and may have chosen the links in it.
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
    """A reply is finished: it arrived, or *why* says why it cannot.

    *away*: its person blocked the bot; it is sent when they are back, with a new `Posting`.
    """

    reply: str
    why: str = ""
    away: bool = False


class Observed(msgspec.Struct, frozen=True, tag="observed"):
    """The observer has processed the line that ends with the entry *upto* and found *facts* facts.

    That is the present line so far, or a line that was archived before it was processed.
    """

    upto: int
    facts: int


class Node(msgspec.Struct, frozen=True):
    """One message on the present path of the conversation, and the entry that added it."""

    seq: int
    message: Message  # estimated
    tokens: int
    begins: bool = False  # a person's message begins a turn here
    own: tuple[tuple[int, int], ...] | None = None  # spans of the owner's words; None if unknown


class Branched(msgspec.Struct, frozen=True, tag="branched"):
    """The present line is saved here, under *name* (may be empty), and continues."""

    name: str = ""


class Resumed(msgspec.Struct, frozen=True, tag="resumed"):
    """The head moved to the entry *to*, and its state at that time is restored.

    *number* is the branch that ends there, 0 for an undo, -1 for any other place. The state was
    read from the log when the head moved: the first *keep* messages of the previous line, then
    *nodes*; *prompt*, unless *same_prompt*; the label, as *sources* and *private*; and the rest of
    `branch.Branch`.
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
    title: str = ""
    opened: tuple[str, ...] = ()


class Retried(msgspec.Struct, frozen=True, tag="retried"):
    """The command *input* is replaced by *text* from here on: an undone message, or a skill's text.

    *untrusted*: not all of it is the owner's. *notice* tells the model the deeds of the line
    that was left; *origins* and *private* are its label.
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
    """The conversation was idle for long: the next message begins a new one."""


class Titled(msgspec.Struct, frozen=True, tag="titled"):
    """The person or the cheap model chose the *title* of this conversation."""

    title: str


class ModelChosen(msgspec.Struct, frozen=True, tag="model"):
    """The owner chose this *model* for this conversation; empty: the default."""

    model: str


Step = CallPending | CallStarted | CallEnded
"""The stages of a call, without decisions."""

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
    | Titled
)
