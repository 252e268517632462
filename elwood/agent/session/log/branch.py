"""The lines of a conversation: the present one, and those that can be resumed.

The log is a tree. A session holds one line of it, from the root to the head: the model's view. Of
every other line it holds a small record, and reads the line from the log when it is resumed
(decision 15).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, TypeVar

import msgspec

from elwood.agent.conversation.labels import Label, Taint, remember
from elwood.agent.conversation.message import (
    Assistant,
    Human,
    Message,
    Notice,
    Prompt,
    ReceivedFile,
    Result,
    Results,
    ToolCall,
    Usage,
    count_newest_seen,
    estimate_prompt,
    extract_words,
    find_opening,
    get_visible_files,
    is_opening_private,
    mend,
    remove_opening,
    texts,
)
from elwood.agent.session.log.entries import Node, Received, Resumed
from elwood.agent.session.log.turns import RESULTS_LATER, TOLD
from elwood.foundation.text.characters import well_formed
from elwood.foundation.text.lines import duration, one_line
from elwood.foundation.text.tokens import estimate

_Viewed = TypeVar("_Viewed", Human, Result)
# Spans of a text: start and end.
Spans = tuple[tuple[int, int], ...]
NO_NATIVE = msgspec.Raw(b"null")
# Minimum characters of native content per token.
CHARACTERS = 3

# Texts that replace an earlier part: before its summary, or alone.
SUMMARY_HEAD = "Summary of the conversation before this point. It is a record, not a request."
CUT_NOTICE = (
    "Earlier messages of this conversation were left out here because they did not fit. "
    "If something from before is needed, say so."
)


class PrivateText(msgspec.Struct, frozen=True):
    """Private data that the model sees: the result of *call*, or text from *source*."""

    text: str
    call: ToolCall | None = None
    source: str = "an earlier result"


class Branch(msgspec.Struct):
    """One line of the conversation.  The session's fold changes it in place.

    The rest of a session's state (waiting messages, replies, receipts) stays when the conversation
    changes lines.
    """

    path: list[Node] = []
    prompt: Prompt | None = None
    prompt_tokens: int = 0  # estimated
    taint: Taint = msgspec.field(default_factory=Taint)  # labels of the text read on this line
    named: dict[str, None] = {}  # URLs and hosts that the owner wrote before any untrusted text
    private_calls: dict[str, None] = {}  # ids of calls that returned private data
    opened: dict[str, None] = {}  # names of tools that a search found, for the prompt
    untold: list[str] = []  # notices to push when no request or call is open; empty between turns
    members: bool = False  # members have spoken, on any line: trusted text may be theirs
    chosen_title: str = ""  # of this conversation; "": its first words

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as sent: well-formed even if the log has gaps."""
        return tuple(mend(node.message for node in self.path))

    @property
    def title(self) -> str:
        """The title of this conversation; "" without messages."""
        return self.chosen_title or one_line(next(_begun_words(self.path), ""), MAX_WORDS)

    @property
    def tokens(self) -> int:
        """Estimated tokens of the conversation, without the prompt."""
        return sum(node.tokens for node in self.path)

    def private_texts(self) -> list[PrivateText]:
        """Return the private data on this line that the model still sees."""
        return list(private_texts(self.path, self.private_calls, summed_up=self.taint.private))

    def own_words(self) -> list[str]:
        """Return the owner's words on this line, and texts about it that are not private."""
        found = []
        for node in self.path:
            match node.message:
                case Human(text):
                    if node.own is None:
                        found.append(remove_opening(text))
                    else:
                        found += [text[start:end] for start, end in node.own]
                    if not is_opening_private(text):
                        found.append(find_opening(text))
                case Notice(text) if is_notice_of_cut(node.message) and not self.taint.private:
                    found.append(text)
        return found

    def public_texts(self, tools: Collection[str]) -> list[str]:
        """Return the results of calls of *tools*, except failed and private ones."""
        found, public = [], set[str]()
        for message in (node.message for node in self.path):
            match message:
                case Assistant():
                    public = {call.id for call in message.calls if call.name in tools}
                    public -= self.private_calls.keys()
                case Results(results):
                    found += [one.text for one in results if one.call in public and not one.failed]
        return found

    def push(
        self, seq: int, message: Message, *, begins: bool = False, own: Spans | None = None
    ) -> None:
        self.path.append(node_of(seq, message, begins=begins, own=own))

    def push_untold(self, seq: int) -> None:
        """Push the untold notices. No request or call may be open: they would come between."""
        if self.untold:
            self.push(seq, Notice("\n\n".join(self.untold)))
            self.untold = []

    def add_taint(self, origins: tuple[str, ...], private: bool) -> None:
        """Apply the label of something that comes from another line."""
        self.taint.add(Label(private=private), "")
        for origin in origins:
            self.taint.add(Label(untrusted=True), origin)

    def apply_taint(self, received: Received) -> None:
        """Apply the labels of a message, and remember the addresses that the owner wrote."""
        bounds, parent = received.bounds, received.parent
        origin = (
            f"the conversation {parent}" if parent else f"a message sent by {received.principal}"
        )
        private = bounds is not None and bounds.private
        is_strange = received.untrusted and not received.member
        self.taint.add(Label(untrusted=is_strange, private=private), origin)
        for file in received.files:
            self.taint.add(Label(untrusted=file.untrusted), file.path)
        self.taint.add(
            Label(untrusted=bool(received.heard)), "other people's messages in the group"
        )
        self.members = self.members or received.member
        # A model wrote a run's report to the person and a child run's input, so the owner did not
        # write the addresses in them.
        is_told = bool(parent) or (bounds is not None and bounds.says in TOLD)
        # A file that must still be fetched counts as present.
        brings_files = any(not file.is_speech for file in received.pending)
        if not (self.taint.sources or received.untrusted or is_told or brings_files):
            remember(self.named, received.text)

    def summarise(self, summary: str, upto: int, begun: int) -> None:
        """Replace the messages of entries before *upto* with *summary*.

        People's messages in the turn that began at the entry *begun* stay.
        """
        kept = [
            without_thinking(node)
            for node in self.path
            if node.seq >= upto or (node.seq >= begun and isinstance(node.message, Human))
        ]
        self.chosen_title = self.title  # the first words may be summarized
        # The summary's number is lower than those of the kept nodes, or a rewind would lose it.
        self.path = [node_of(min(upto, begun) - 1, Notice(summary)), *kept]

    def begin_epoch(self, prompt: Prompt, *, blind: bool = False) -> None:
        """Continue with another prompt. Thinking is only valid with the prompt it was made with.

        All messages are sent again then, so old files are not shown again.
        """
        self._stand_behind(prompt)
        messages = [node.message for node in self.path]
        count = sum(len(get_visible_files(message)) for message in messages)
        left = 0 if blind else count_newest_seen(messages)
        keeps = iter([False] * (count - left) + [True] * left)
        self.path = [_drop_files(without_thinking(node), keeps) for node in self.path]

    def _stand_behind(self, prompt: Prompt | None) -> None:
        self.prompt = prompt
        self.prompt_tokens = estimate_prompt(prompt) if prompt else 0

    def move(self, resumed: Resumed) -> None:
        self.path = [*self.path[: resumed.keep], *resumed.nodes]
        if not resumed.same_prompt:
            self._stand_behind(resumed.prompt)
        self.taint = Taint(dict.fromkeys(resumed.sources), resumed.private)
        self.named = dict.fromkeys(resumed.named)
        self.private_calls = dict.fromkeys(resumed.private_calls)
        self.chosen_title = resumed.title
        self.opened = dict.fromkeys(resumed.opened)
        # Untold notices are about calls of the line that was left.
        self.untold = []


def resume_entry(present: Branch, found: Branch, to: int, number: int = 0) -> Resumed:
    """Build the entry that moves from *present* to *found*, the state of the log at *to*."""
    keep = 0
    for here, there in zip(present.path, found.path, strict=False):
        if here != there:
            break
        keep += 1
    same = present.prompt == found.prompt
    # All branches of a conversation have its newest title.
    is_here = keep or (number == 0 and found.path)
    return Resumed(
        to,
        number,
        keep,
        tuple(found.path[keep:]),
        None if same else found.prompt,
        same,
        tuple(found.taint.sources),
        found.taint.private,
        tuple(found.named),
        tuple(found.private_calls),
        present.chosen_title if is_here else found.chosen_title,
        tuple(found.opened),
    )


def node_of(seq: int, message: Message, *, begins: bool = False, own: Spans | None = None) -> Node:
    tokens = sum(map(estimate, texts(message))) + sum(
        file.tokens for file in get_visible_files(message)
    )
    return Node(seq, message, tokens, begins, own)


def response_node(seq: int, message: Assistant, usage: Usage, ratio: float) -> Node:
    """Estimate the tokens of a response when it is sent back, thinking included.

    The model counted all its output, but thinking that it does not want back is not in the native
    content. *ratio* is the model's count per estimated token.
    """
    words = node_of(seq, message)
    if usage.estimated or not message.codec:
        return words
    room = len(bytes(message.native)) // CHARACTERS
    thought = min(int(usage.output / ratio), room)
    return Node(seq, message, max(words.tokens, thought))


def without_thinking(old: Node) -> Node:
    """Reduce a response to text and calls, without thinking, so that any codec can render it."""
    message = old.message
    if not isinstance(message, Assistant) or not message.codec:
        return old
    return node_of(old.seq, Assistant(message.blocks, "", message.model, NO_NATIVE))


def viewable_files(inputs: Iterable[Received]) -> tuple[ReceivedFile, ...]:
    return tuple(file for received in inputs for file in received.files if file.tokens)


def _drop_files(old: Node, keeps: Iterator[bool]) -> Node:
    """Remove the files for which the next value of *keeps* is False, and note that in the text."""
    message = old.message
    if not get_visible_files(message):
        return old
    match message:
        case Human():
            message = _leave_out(message, keeps)
        case Results(results):
            message = Results(tuple(_leave_out(result, keeps) for result in results))
    return node_of(old.seq, message, begins=old.begins, own=old.own)


def _leave_out(part: _Viewed, keeps: Iterator[bool]) -> _Viewed:
    kept = [(file, next(keeps)) for file in part.files]
    gone = [file.path for file, is_kept in kept if not is_kept]
    if not gone:
        return part
    left = tuple(file for file, is_kept in kept if is_kept)
    text = f"{part.text}\n[You can no longer see {', '.join(gone)}.]"
    return msgspec.structs.replace(part, text=text, files=left)


def find_own_words(text: str, inputs: Iterable[Received]) -> Spans | None:
    """Find the owner's words of *inputs* in a turn's *text*; None if they were changed there."""
    found, at = [], len(find_opening(text))
    for received in inputs:
        if received.untrusted:
            continue
        spoken = (file.text for file in received.files if not file.untrusted)
        for words in filter(None, (*spoken, well_formed(received.text).strip())):
            at = text.find(words, at)
            if at < 0:
                return None
            found.append((at, at := at + len(words)))
    return tuple(found)


def private_texts(
    path: Iterable[Node], calls: Collection[str], *, summed_up: bool
) -> Iterator[PrivateText]:
    """Yield private results of *calls*, private notices, and if *summed_up* their summaries."""
    made: Mapping[str, ToolCall] = {}
    for message in (node.message for node in path):
        match message:
            case Assistant():
                made = {call.id: call for call in message.calls}
            case Results(results):
                private = (one for one in results if one.call in calls)
                yield from (PrivateText(one.text, made.get(one.call)) for one in private)
            case Notice(text, private=source) if source:
                yield PrivateText(text, source=source)
            case Notice(text) if summed_up and is_notice_of_cut(message):
                yield PrivateText(text, source="the summary of this conversation")
            case Notice(text) if summed_up and text.startswith(RESULTS_LATER):
                yield PrivateText(text, source="the result of an earlier call")
            case Human(text) if is_opening_private(text):
                yield PrivateText(find_opening(text), source="your notes of earlier days")


# --- the other lines -----------------------------------------------------------------------------

# Remembered lines; the oldest unnamed ones are removed first.
MAX_BRANCHES = 50
# Characters of a line's title and last words, and of its name.
MAX_WORDS, MAX_NAME = 60, 40

# Why a line was saved: a mark, `/new`, idleness, `/undo` or `/retry`, `/resume`.
Why = Literal["marked", "new", "archived", "undone", "left"]
REASONS: dict[Why, str] = {
    "marked": "saved",
    "new": "closed",
    "archived": "archived when idle",
    "undone": "taken back",
    "left": "left",
}


class SavedBranch(msgspec.Struct, frozen=True):
    """A line that can be resumed: its head was at the entry *tip* until Unix time *at*."""

    number: int
    tip: int
    at: float
    why: Why
    said: str
    name: str = ""
    title: str = ""


class Tree(msgspec.Struct):
    """The lines other than the present one.  The session's fold changes it in place."""

    branches: list[SavedBranch] = []
    line: int = 1  # number of the present line
    newest: int = 1  # highest number so far
    kept: int = 0  # newest entry that a branch holds

    def mark(self, name: str, line: Branch, tip: int, at: float) -> None:
        """Save the present *line* as it is. Another branch with this name loses the name."""
        if not line.path:
            return
        for place, branch in enumerate(self.branches):
            if name and branch.name.casefold() == name.casefold():
                self.branches[place] = msgspec.structs.replace(branch, name="")
        self.newest += 1
        said = summarize_line(line)
        self._keep(SavedBranch(self.newest, tip, at, "marked", said, name, line.title))

    def leave(self, line: Branch, tip: int, at: float, why: Why) -> None:
        """Save the present *line*, unless a branch holds all of it, and begin another one."""
        if line.path and line.path[-1].seq > self.kept:
            # A resumed line that continued is still one branch.
            self.branches = [one for one in self.branches if one.number != self.line]
            said = summarize_line(line)
            self._keep(SavedBranch(self.line, tip, at, why, said, title=line.title))
        if any(branch.number == self.line for branch in self.branches):
            self.newest += 1
            self.line = self.newest

    def go_on(self, number: int) -> None:
        """Continue as the branch *number*; a mark stays where it is."""
        if any(one.number == number and one.why != "marked" for one in self.branches):
            self.line = number

    def find(self, given: str) -> SavedBranch | None:
        """Return another line by number, name or title; the newest one if *given* is empty."""
        others = [branch for branch in self.branches if branch.number != self.line]
        wanted = given.casefold()
        if not given:
            return max(others, key=lambda branch: branch.at, default=None)
        named = (one for one in others if wanted in (str(one.number), one.name.casefold()))
        titled = (one for one in reversed(others) if wanted == one.title.casefold())
        return next(named, None) or next(titled, None)

    def _keep(self, branch: SavedBranch) -> None:
        self.branches.append(branch)
        self.kept = max(self.kept, branch.tip)
        if len(self.branches) > MAX_BRANCHES:
            old = next((one for one in self.branches if not one.name), self.branches[0])
            self.branches.remove(old)


def _begun_words(path: Iterable[Node]) -> Iterator[str]:
    """Yield the words that begin each turn."""
    begun = (node.message for node in path if node.begins)
    return (extract_words(one.text) for one in begun if isinstance(one, Human))


def summarize_line(line: Branch) -> str:
    """Return the number of turns of *line*, its title, and its last words."""
    begun = [*_begun_words(line.path)]
    if not begun:
        return "no messages yet"
    title, last = f"“{line.title}”", f"“{one_line(begun[-1], MAX_WORDS)}”"
    return f"1 turn: {title}" if len(begun) == 1 else f"{len(begun)} turns: {title} … {last}"


def describe_branches(tree: Tree, line: Branch, now: float) -> dict[int, str]:
    """Describe each branch by its number: the present *line* first, then the newest."""
    lines = {tree.line: f"→ {tree.line}: here, {summarize_line(line)}"}
    for branch in sorted(tree.branches, key=lambda one: (one.at, one.number), reverse=True):
        if branch.number != tree.line:  # a line that was resumed is the present one
            head = f"{branch.number} {branch.name}".rstrip()
            ago = duration(now - branch.at)
            lines[branch.number] = f"{head}: {REASONS[branch.why]} {ago} ago, {branch.said}"
    return lines


def is_notice_of_cut(message: Message) -> bool:
    """Return True if *message* replaces an earlier part."""
    return isinstance(message, Notice) and message.text.startswith((SUMMARY_HEAD, CUT_NOTICE))
