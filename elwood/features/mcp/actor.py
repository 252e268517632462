"""The actor of one MCP server: keeps it connected, calls its tools, knows which were accepted.

Whatever the server does stays in here: it crashes, hangs or floods its own nursery, which is begun
anew after a growing delay, and after too many crashes not until the owner says so.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, assert_never

import trio

from elwood.features.mcp.definitions import Offer, ToolDefinition, compare, review
from elwood.features.mcp.lines import LastWords
from elwood.features.mcp.messages import (
    CallDone,
    CallFailed,
    CallTool,
    NoAnswer,
    NotConnected,
    ReadPrompt,
    ReadResource,
    ServerMail,
    ServerRefused,
    State,
    Steer,
    Steered,
)
from elwood.features.mcp.questions import ServerQuestion, answer_to, question
from elwood.features.mcp.results import (
    Block,
    Rendered,
    fitted,
    listing,
    messages,
    render,
    resources,
)
from elwood.features.mcp.settings import ServerSettings
from elwood.features.mcp.store import ServerBook, ServerStore
from elwood.foundation.runtime import (
    Blocking,
    Halt,
    Mailbox,
    Reply,
    RestartPolicy,
    Signal,
    clear_error,
    describe,
    report_error,
    waiting,
)
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.text.lines import fenced, one_line

if TYPE_CHECKING:
    from elwood.features.mcp.client import Connection

log = logging.getLogger("elwood.mcp")

# Started again after 1, 2, 4 … 60 s; the fifth crash within ten minutes is the last.
POLICY = RestartPolicy(first_delay=1.0, max_delay=60.0, max_crashes=4, within=600.0)
REMOTE_POLICY = RestartPolicy(first_delay=1.0, max_delay=300.0, max_crashes=None, within=3600.0)
# Calls at a time; more wait.
MAX_CALLS = 8
# Seconds between two looks at a list of tools that the server says has changed.
RELIST = 30.0
# Seconds before the deadline of a call at which we end it: we know what it waited for.
TO_SAY_WHAT = 2.0
# Seconds that a server has, after a call was cancelled, to show that it still answers.
SIGN_OF_LIFE = 10.0
# Seconds between two looks at how much memory a server takes.
LOOK_EVERY = 60.0
# Seconds that the owner has to answer what a server asks; the call has its own limit.
TO_ANSWER = 300.0
# Characters of what is said of an error.
MAX_ERROR = 300

Connect = Callable[
    [bool, Callable[[], object], Callable[[Block], Awaitable[Block]]],
    AbstractAsyncContextManager["Connection"],
]
"""Connects, by the old handshake if the first is True; calls the second when tools change, and the
third when the server asks something."""


class McpServer:
    """Keeps the server *name*, as *settings* say.

    *connect* reaches it, *show* lets the model have its tools, *keep* puts the files of an answer
    into the workspace and gives its text, *tell* tells the owner, with commands to press.  *rss*
    says how many bytes its processes take, *errors* what they wrote to stderr.
    """

    def __init__(
        self,
        name: str,
        settings: ServerSettings,
        store: ServerStore,
        *,
        connect: Connect,
        show: Callable[[Sequence[ToolDefinition]], object],
        keep: Callable[[Rendered], Awaitable[str]],
        tell: Callable[[str, Sequence[str]], Awaitable[bool]],
        rss: Callable[[], int],
        blocking: Blocking,
        errors: LastWords,
    ) -> None:
        self.name = name
        self._settings = settings
        self._store = store
        self._connect = connect
        self._show = show
        self._keep = keep
        self._tell = tell
        self._rss = rss
        self._blocking = blocking
        self._errors = errors
        self._book = ServerBook()
        self._offer: Offer | None = None
        self._connection: Connection | None = None
        self._state: State = "idle"
        self._why = ""
        self._crashes: list[float] = []
        self._restarts = self._used = self._size = 0
        self._legacy = False
        self._last_call = -math.inf
        self._calls: dict[int, str] = {}
        self._slots = trio.Semaphore(MAX_CALLS)
        self._stray: tuple[str, ...] = ()
        self._is_wanted = False
        self._changed = Signal()
        # What the owner can cut off: a connection, or a delay before the next.
        self._scope = trio.CancelScope()
        self._life: trio.Nursery | None = None
        self._question: ServerQuestion | None = None
        self._reply: Reply[Block] = Reply()

    async def load(self) -> None:
        """Read what was accepted, and let the model have it."""
        self._book = await self._blocking(self._store.read)
        self._publish()

    async def run(self, mailbox: Mailbox[ServerMail]) -> None:
        await self.load()
        # Nobody knows what a server offers that was never asked.
        self._is_wanted = self._settings.start == "eager" or not self._book.met
        if self._book.off:
            self._turn("off")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_connected, nursery)
            nursery.start_soon(self._show_state)
            async for message in mailbox:
                match message:
                    case CallTool() | ReadResource() | ReadPrompt():
                        nursery.start_soon(self._take, message)
                    case Steer():
                        nursery.start_soon(self._steer, message)
                    case _:
                        assert_never(message)
            nursery.cancel_scope.cancel()

    # --- being connected ----------------------------------------------------------------------

    async def _keep_connected(self, nursery: trio.Nursery) -> None:
        while True:
            while self._state in ("off", "parked") or not self._is_wanted:
                await self._changed.wait()
            with trio.CancelScope() as self._scope:
                self._turn("starting")
                error = await self._connected(nursery)
                if self._scope.cancel_called:  # the owner has said something else meanwhile
                    continue
                if error is None:
                    self._turn("idle")
                elif (delay := self._crashed(error)) is None:
                    words = (
                        f"The MCP server {self.name} is parked: {self._why}. "
                        f"/mcp restart {self.name} starts it again."
                    )
                    nursery.start_soon(self._tell, words, (f"/mcp restart {self.name}",))
                else:
                    await trio.sleep(delay)

    def _crashed(self, error: Exception) -> float | None:
        """Note a crash; say after how many seconds it is begun anew, or None if it is parked."""
        words, why = self._errors.last(), describe(error)
        self._why = one_line(f"{why}; it wrote: {words}" if words else why, MAX_ERROR)
        log.warning("MCP server ended", extra={"server": self.name, "why": self._why})
        policy = POLICY
        if self._settings.url:  # it may come back by itself, and costs nothing meanwhile
            policy = REMOTE_POLICY
            report_error("connecting", self._why)
        now = trio.current_time()
        self._crashes = [*(at for at in self._crashes if now - at < policy.within), now]
        delay = policy.delay(len(self._crashes))
        is_mute = isinstance(error, BaseExceptionGroup) and error.subgroup(NoAnswer) is not None
        if delay is None or (is_mute and self._legacy and not self._settings.url):
            self._turn("parked")
            return None
        # An old server may say nothing at all to a question that it does not know.
        self._legacy = self._legacy or is_mute
        self._restarts += 1
        self._turn("waiting")
        return delay

    async def _connected(self, nursery: trio.Nursery) -> Exception | None:
        """Be connected until that is over; give what broke it, or None if we ended it."""
        error: Exception | None = None
        try:
            await self._connection_life(nursery)
        except* Halt:
            raise
        except* Exception as group:  # of the SDK, in groups: whatever it is, it is the server's
            error = group
        return error

    async def _connection_life(self, nursery: trio.Nursery) -> None:
        relist = trio.Event()

        def changed() -> None:
            relist.set()

        async with self._connect(self._legacy, changed, self._elicit) as connection:
            try:
                await self._list(connection, nursery)
                listed, self._last_call = -math.inf, trio.current_time()
                async with trio.open_nursery() as self._life:
                    self._connection = connection
                    self._turn("ready")
                    clear_error("connecting")
                    self._life.start_soon(self._idle, self._life.cancel_scope)
                    self._life.start_soon(connection.watch, changed)
                    while True:
                        await relist.wait()
                        await trio.sleep(max(0.0, listed + RELIST - trio.current_time()))
                        relist, listed = trio.Event(), trio.current_time()
                        await self._list(connection, nursery)
            finally:
                self._connection = self._life = None

    async def _idle(self, scope: trio.CancelScope) -> None:
        """End the connection when it was not used for long enough."""
        idle = self._settings.idle or math.inf
        while True:
            left = self._last_call + idle - trio.current_time()
            if left <= 0 and not self._calls:
                break
            await trio.sleep(max(left, 1.0))
        self._is_wanted, self._connection = False, None
        scope.cancel()

    async def _sign_of_life(self, connection: "Connection") -> None:
        """After a call that was given up: a server that answers nothing else either is ended."""
        with trio.move_on_after(SIGN_OF_LIFE):
            with suppress(ServerRefused):
                await connection.list_tools()
            return
        raise NotConnected("it answered neither a call nor what was asked after it")

    async def _list(self, connection: "Connection", nursery: trio.Nursery) -> None:
        within = self._settings.start_timeout
        with trio.move_on_after(within) as scope:
            offered = await connection.list_tools()
        if scope.cancelled_caught:
            raise NotConnected(f"it did not list its tools within {within:g} s")
        book = self._book
        if not book.met:
            first = compare(self.name, offered, {})
            if self._settings.accept == "first":
                book.accepted = {tool.name: tool for tool in first.waiting}
            book.met = True
            await self._store.write(book)
        self._offer = compare(self.name, offered, book.accepted)
        self._note_stray_rules([tool.name for tool in offered])
        self._publish()
        if self._offer.waiting and book.told != self._offer.code:
            book.told = self._offer.code
            await self._store.write(book)
            names = ", ".join(tool.name for tool in self._offer.waiting)
            words = (
                f"The MCP server {self.name} offers tools that are new or have changed: "
                f"{one_line(names, 500)}. They are off until you accept them."
            )
            nursery.start_soon(self._tell, words, (f"/mcp accept {self.name}",))

    def _note_stray_rules(self, offered: Sequence[str]) -> None:
        """Say which rules of the owner are about tools that the server does not have."""
        stray = tuple(name for name in self._settings.tools if name not in offered)
        if stray != self._stray:
            for name in stray:
                where = f"mcp_servers.{self.name}.tools.{name}"
                near = get_close_matches(name, offered, n=1)
                hint = {"did_you_mean": near[0]} if near else {}
                log.warning(
                    "rule for a tool that the server does not have", extra={"at": where, **hint}
                )
        self._stray = stray

    def _publish(self) -> None:
        """Let the model have what was accepted, whether the server is up or not."""
        tools = list(self._book.accepted.values())
        if self._offer is not None:
            tools = list(self._offer.usable)
        self._show(() if self._book.off else tools)

    # --- calls --------------------------------------------------------------------------------

    async def _take(self, asked: CallTool | ReadResource | ReadPrompt) -> None:
        """Answer; whoever asked goes away at their deadline."""
        with asked.reply.while_wanted():
            asked.reply.set(await self._answer(asked))

    async def _answer(self, asked: CallTool | ReadResource | ReadPrompt) -> CallDone | CallFailed:
        call, repeats = asked if isinstance(asked, CallTool) else None, True
        if self._book.off:
            return CallFailed(f"the MCP server {self.name} is off")
        if call is not None:
            repeats = call.repeats
            accepted = self._book.accepted.get(call.tool)
            if accepted is None or accepted.pin != call.pin:
                return CallFailed(f"{call.tool} is off: the owner has not accepted it as it is")
        is_sent = False
        limit = self._settings.timeout
        with trio.move_on_after(limit - min(TO_SAY_WHAT, limit / 10)):
            for tries in range(2):
                connection = await self._ready(patient=tries > 0)
                if isinstance(connection, CallFailed):
                    return connection
                if call is not None and not any(tool.pin == call.pin for tool in self._usable):
                    return CallFailed(f"{call.tool} of {self.name} has changed, so it is off now")
                is_sent = not repeats
                answer = await self._asked(connection, asked)
                if answer is not None:
                    return answer
                if not repeats:
                    break
            return CallFailed(f"the MCP server {self.name} ended during the call", is_sent)
        return CallFailed(f"the MCP server {self.name} gave no answer in time", is_sent)

    @property
    def _usable(self) -> Sequence[ToolDefinition]:
        return self._offer.usable if self._offer is not None else ()

    async def _ready(self, *, patient: bool) -> "Connection | CallFailed":
        """Wait until the server is there, and have it started if it is not."""
        if not self._is_wanted:
            self._is_wanted = True
            self._changed.give()
        while (connection := self._connection) is None:
            if self._state in ("off", "parked") or (self._state == "waiting" and not patient):
                return CallFailed(f"the MCP server {self.name} does not run: {self._told}")
            await self._changed.wait()
        return connection

    async def _asked(
        self, connection: "Connection", asked: CallTool | ReadResource | ReadPrompt
    ) -> CallDone | None:
        """Ask the server; None if it was lost meanwhile."""
        self._used += 1
        number = self._used
        self._calls[number] = label = _label(asked)
        try:
            async with self._slots:
                with waiting(label):
                    found, failed = await self._found(connection, asked, number)
        except NotConnected:
            if self._connection is connection:
                self._connection = None
            return None
        except ServerRefused as error:
            return CallDone(one_line(str(error), 2000), failed=True)
        except trio.Cancelled:
            if self._life is not None and self._connection is connection:
                self._life.start_soon(self._sign_of_life, connection)
            raise
        finally:
            del self._calls[number]
            self._last_call = trio.current_time()
        return CallDone(await self._keep(found) if found.files else found.text, failed)

    async def _found(
        self, connection: "Connection", asked: CallTool | ReadResource | ReadPrompt, number: int
    ) -> tuple[Rendered, bool]:
        folder = f"mcp/{self.name}"
        match asked:
            case ReadResource(uri=""):
                text = listing(await connection.list_resources(), "resources")
                return fitted(text, folder, {}), False
            case ReadResource(uri=uri):
                return resources(await connection.read_resource(uri), folder), False
            case ReadPrompt(name=""):
                text = listing(await connection.list_prompts(), "prompts")
                return fitted(text, folder, {}), False
            case ReadPrompt(name=name, arguments=given):
                return messages(await connection.read_prompt(name, given), folder), False
            case CallTool():

                async def shown(progress: float, total: float | None, message: str | None) -> None:
                    await trio.lowlevel.checkpoint()
                    of = f" of {total:g}" if total else ""
                    words = f"{_label(asked)}: {progress:g}{of} {message or ''}"
                    self._calls[number] = one_line(words, 200)
                    self._changed.give()

                result = await connection.call(asked.tool, asked.arguments, shown)
                return render(result.content, result.structured, folder), result.failed

    async def _elicit(self, asked: Block) -> Block:
        """Ask the owner what the server wants to know, while it works for them."""
        if not self._calls or self._question is not None:
            return {"action": "cancel"}
        found = question(self.name, asked)
        if isinstance(found, str):
            await self._tell(f"The MCP server {self.name} was not answered: {found}.", ())
            return {"action": "decline"}
        self._question, self._reply = found, Reply()
        try:
            with trio.move_on_after(TO_ANSWER):
                await self._tell(found.words, found.buttons)
                return await self._reply.wait()
            return {"action": "cancel"}
        finally:
            self._question = None

    def _answered(self, words: str, *, decline: bool) -> str:
        if (asked := self._question) is None:
            return f"{self.name} asks nothing now."
        content = {} if decline else answer_to(asked, words)
        if isinstance(content, str):
            return f"That is no answer yet: {content}."
        action = {"action": "decline"} if decline else {"action": "accept", "content": content}
        self._reply.set(action)
        return f"{self.name} was told that you do not answer." if decline else "It was told so."

    # --- what the owner sees and says -----------------------------------------------------------

    def _turn(self, state: State) -> None:
        self._state = state
        self._changed.give()

    @property
    def _told(self) -> str:
        """Say in a few words how the server does."""
        return {
            "off": "off",
            "idle": "not started",
            "starting": "starting",
            "ready": "ready",
            "waiting": f"to be started again after: {self._why}",
            "parked": f"parked after: {self._why}",
        }[self._state]

    def _summary(self) -> str:
        parts = [self._told]
        if (connection := self._connection) is not None:
            parts.append(f"{connection.version} ({connection.era})")
            parts += [f"{self._size >> 20} MB"] if self._size else []
        if self._offer is not None:
            waiting = f", {len(self._offer.waiting)} to accept" if self._offer.waiting else ""
            parts.append(f"{len(self._usable)} tools{waiting}")
        if self._stray:
            names = ", ".join(self._stray)
            parts.append(
                f"mcp_servers.{self.name}.tools names tools that it does not have: {names}"
            )
        if self._restarts:
            parts.append(f"restarts: {self._restarts}")
        if self._why and self._state not in ("waiting", "parked"):
            parts.append(f"last error: {self._why}")
        return "; ".join([*parts, *self._calls.values()])

    async def _show_state(self) -> None:
        """Let `elwood inspect` show how the server does."""
        while True:
            with waiting(self._summary()), trio.move_on_after(LOOK_EVERY) as scope:
                await self._changed.wait()
            if scope.cancelled_caught:
                self._size = await self._blocking(self._rss)

    async def _steer(self, steer: Steer) -> None:
        try:
            steer.reply.set(await self._steered_to(steer))
        except DiskFull as error:
            steer.reply.set(Steered(f"That was not done: {error}"))

    async def _steered_to(self, steer: Steer) -> Steered:
        name = self.name
        match steer.what:
            case "summary":
                return Steered(f"{name}: {self._summary()}")
            case "show":
                return Steered(await self._details())
            case "enable" | "restart":
                self._book.off = False
                await self._store.write(self._book)
                self._crashes, self._legacy = [], False
                self._publish()
                self._is_wanted = True
                self._turn("idle")
                self._scope.cancel()
                return Steered(f"{name} is being started.")
            case "disable":
                self._book.off = True
                await self._store.write(self._book)
                self._publish()
                self._turn("off")
                self._scope.cancel()
                return Steered(f"{name} is off, and stays so until /mcp enable {name}.")
            case "accept":
                return await self._accept(steer.words)
            case "answer" | "decline" as what:
                return Steered(self._answered(steer.words, decline=what == "decline"))

    async def _details(self) -> str:
        self._size = await self._blocking(self._rss)
        lines = [f"{self.name}: {self._summary()}"]
        offer = self._offer or Offer(usable=tuple(self._book.accepted.values()))
        lines += [f"- {tool.name}" for tool in offer.usable]
        lines += [f"- {tool.name}: off until you accept it" for tool in offer.waiting]
        lines += [f"- {name}: is not offered any more" for name in offer.gone]
        lines += [f"- {one_line(one)}: refused: {why}" for one, why in offer.refused.items()]
        return "\n".join(lines)

    async def _accept(self, code: str) -> Steered:
        """Show what waits, or accept exactly what was shown under *code*."""
        offer = self._offer
        if offer is None:
            return Steered(f"{self.name} has not said yet what it offers: {self._told}.")
        if not offer.waiting:
            return Steered(f"Nothing of {self.name} waits to be accepted.")
        if code != offer.code:
            text = review(offer, self._book.accepted)
            head = f"{self.name} describes its tools in these words, which nobody vouches for:"
            return Steered(f"{head}\n\n{fenced(text)}", (f"/mcp accept {self.name} {offer.code}",))
        accepted = {tool.name: tool for tool in offer.waiting}
        self._book.accepted = dict(sorted((self._book.accepted | accepted).items()))
        await self._store.write(self._book)
        self._offer = compare(self.name, [*offer.usable, *offer.waiting], self._book.accepted)
        self._publish()
        self._changed.give()
        return Steered(f"Accepted, and used from the next message on: {', '.join(accepted)}.")


def _label(asked: CallTool | ReadResource | ReadPrompt) -> str:
    match asked:
        case CallTool(tool=tool):
            return tool
        case ReadResource(uri=uri):
            return one_line(f"reading {uri or 'the list of resources'}", 100)
        case ReadPrompt(name=name):
            return one_line(f"reading the prompt {name}", 100)
