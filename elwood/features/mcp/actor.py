"""Actor of one MCP server: keep it connected, call its tools, store which tools are accepted.

Faults of the server (a crash, a hang, a flood) stay in its own nursery.  The nursery is restarted
with a growing delay; after too many crashes only the owner can start it again.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, assert_never

import trio

from elwood.agent.conversation.message import ReceivedFile
from elwood.features.mcp.definitions import Offer, ToolDefinition, compare, describe_tool, review
from elwood.features.mcp.lines import LastWords
from elwood.features.mcp.messages import (
    LOGIN,
    Asker,
    CallDone,
    CallFailed,
    CallTool,
    NeedsLogin,
    NoAnswer,
    NotConnected,
    ReadPrompt,
    ReadResource,
    ServerMail,
    ServerRefused,
    State,
    Steer,
    Steered,
    error_text,
)
from elwood.features.mcp.questions import ServerQuestion, answer_to, questions
from elwood.features.mcp.results import (
    Block,
    Rendered,
    fit_text,
    format_completions,
    format_listing,
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
    show_wait,
)
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.text.lines import fence, one_line

if TYPE_CHECKING:
    from elwood.features.mcp.client import Connection

log = logging.getLogger("elwood.mcp")

# Restart after 1, 2, 4 … 60 s; the fifth crash within ten minutes parks the server.
POLICY = RestartPolicy(first_delay=1.0, max_delay=60.0, max_crashes=4, within=600.0)
REMOTE_POLICY = RestartPolicy(first_delay=1.0, max_delay=300.0, max_crashes=None, within=3600.0)
# Concurrent calls; more calls wait.
MAX_CALLS = 8
# Minimum seconds between two reloads of a tool list that has changed.
RELIST = 30.0
# Seconds before the deadline of a call at which the actor ends it, to report the cause.
TO_SAY_WHAT = 2.0
# Seconds in which a server must list its tools after a call was cancelled.
SIGN_OF_LIFE = 10.0
# Seconds until a restart for which a call waits.
SOON = 3.0
# Seconds between two measurements of a server's memory.
LOOK_EVERY = 60.0
# Seconds for the owner to answer a server's question; the call has its own limit.
TO_ANSWER = 300.0
# Characters of an error description, and lines of error output in the status.
MAX_ERROR, MAX_LINES = 300, 3

Connect = Callable[
    [bool, Callable[[], object], Callable[[Block], Awaitable[Block]]],
    AbstractAsyncContextManager["Connection"],
]
"""Connects, by the old handshake if the first is True; calls the second when tools change, and the
third when the server asks something."""


class McpServer:
    """Actor of the server *name*.

    *connect* opens a connection, *show* publishes the tools to the model, with the reason why each
    of the others is off, and the completions for terminals, *keep* writes the files of a result
    into the workspace and returns its text and pictures, *tell* sends a message with command
    buttons to the owner, *rss* returns the bytes of memory of its processes, *errors* holds the end
    of its stderr, *note_trouble* stores why the owner must act ("" if not).
    """

    def __init__(
        self,
        name: str,
        settings: ServerSettings,
        store: ServerStore,
        *,
        connect: Connect,
        show: Callable[[Sequence[ToolDefinition], Mapping[str, str], Mapping[str, str]], object],
        keep: Callable[[Rendered], Awaitable[tuple[str, tuple[ReceivedFile, ...]]]],
        tell: Callable[[str, Sequence[str], Asker | None], Awaitable[bool]],
        rss: Callable[[], int],
        blocking: Blocking,
        errors: LastWords,
        note_trouble: Callable[[str], object],
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
        self._note_trouble = note_trouble
        self._book = ServerBook()
        self._offer: Offer | None = None
        self._offered: Sequence[ToolDefinition] = ()
        self._connection: Connection | None = None
        self._state: State = "idle"
        self._why = ""
        self._crashes: list[float] = []
        self._restart_at = -math.inf
        self._restarts = self._used = self._size = 0
        self._legacy = False
        self._last_call = -math.inf
        self._calls: dict[int, str] = {}
        self._slots = trio.Semaphore(MAX_CALLS)
        self._stray: tuple[str, ...] = ()
        self._is_wanted = False
        self._changed = Signal()
        # Cancelled by the owner's commands: covers a connection, or a delay before the next one.
        self._scope = trio.CancelScope()
        self._life: trio.Nursery | None = None
        self._question: ServerQuestion | None = None
        self._is_asking = False
        self._reply: Reply[Block | None] = Reply()
        # Who made each call in progress, and where.
        self._askers: dict[int, Asker | None] = {}

    async def load(self) -> None:
        """Load the accepted tools and publish them to the model."""
        self._book = await self._blocking(self._store.read)
        self._publish()

    async def run(self, mailbox: Mailbox[ServerMail]) -> None:
        await self.load()
        # A server that was never connected has no known tools.
        self._is_wanted = self._settings.start == "eager" or not self._book.met
        if self._book.off:
            self._set_state("off")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_connected, nursery)
            nursery.start_soon(self._show_state)
            async for message in mailbox:
                match message:
                    case CallTool() | ReadResource() | ReadPrompt():
                        nursery.start_soon(self._handle_request, message)
                    case Steer():
                        nursery.start_soon(self._handle_steer, message)
                    case _:
                        assert_never(message)
            nursery.cancel_scope.cancel()

    # --- being connected ----------------------------------------------------------------------

    async def _keep_connected(self, nursery: trio.Nursery) -> None:
        while True:
            while self._state in ("off", "parked", "login") or not self._is_wanted:
                await self._changed.wait()
            with trio.CancelScope() as self._scope:
                self._set_state("starting")
                error = await self._stay_connected(nursery)
                if self._scope.cancel_called:  # the owner's command has replaced this attempt
                    continue
                if error is None:
                    self._set_state("idle")
                elif (delay := self._record_crash(error)) is None:
                    words = f"The MCP server {self.name} {self._state_text}."
                    if self._state == "parked":
                        words = (
                            f"The MCP server {self.name} keeps failing, so I stopped trying: "
                            f"{self._why}. Type /mcp restart {self.name} to start it again."
                        )
                    nursery.start_soon(self._tell, words, (f"/mcp restart {self.name}",), None)
                else:
                    self._restart_at = trio.current_time() + delay
                    await trio.sleep(delay)

    def _record_crash(self, error: Exception) -> float | None:
        """Record a crash; return the seconds until the restart, or None if the server is parked."""
        self._why = one_line(_explain(error, self._errors.last(), self._settings), MAX_ERROR)
        extra = {"server": self.name, "why": self._why, "error": describe(error)}
        log.warning("MCP server failed", extra=extra)
        if isinstance(error, BaseExceptionGroup) and error.subgroup(NeedsLogin) is not None:
            self._set_state("login")
            return None
        policy = POLICY
        if self._settings.url:  # a remote server may recover, and retrying costs nothing
            policy = REMOTE_POLICY
            report_error("connecting", self._why)
        now = trio.current_time()
        self._crashes = [*(at for at in self._crashes if now - at < policy.within), now]
        delay = policy.delay(len(self._crashes))
        is_mute = isinstance(error, BaseExceptionGroup) and error.subgroup(NoAnswer) is not None
        if delay is None or (is_mute and self._legacy and not self._settings.url):
            self._set_state("parked")
            return None
        # An old server may ignore a request that it does not know.
        self._legacy = self._legacy or is_mute
        self._restarts += 1
        self._set_state("waiting")
        return delay

    async def _stay_connected(self, nursery: trio.Nursery) -> Exception | None:
        """Connect and stay connected; return the error that ended it, or None if we closed it."""
        error: Exception | None = None
        try:
            await self._connection_life(nursery)
        except* Halt:
            raise
        except* Exception as group:  # the SDK raises groups; any error is the server's fault
            error = group
        return error

    async def _connection_life(self, nursery: trio.Nursery) -> None:
        relist = trio.Event()

        def changed() -> None:
            relist.set()

        async with self._connect(self._legacy, changed, self._elicit) as connection:
            try:
                await self._load_tools(connection, nursery)
                listed, self._last_call = -math.inf, trio.current_time()
                async with trio.open_nursery() as self._life:
                    self._connection = connection
                    self._set_state("ready")
                    clear_error("connecting")
                    self._life.start_soon(self._close_when_idle, self._life.cancel_scope)
                    self._life.start_soon(connection.watch, changed)
                    self._life.start_soon(self._list_completions, connection)
                    while True:
                        await relist.wait()
                        await trio.sleep(max(0.0, listed + RELIST - trio.current_time()))
                        relist, listed = trio.Event(), trio.current_time()
                        await self._load_tools(connection, nursery)
            finally:
                self._connection = self._life = None

    async def _close_when_idle(self, scope: trio.CancelScope) -> None:
        """Close the connection when it has been idle for long enough."""
        idle = self._settings.idle or math.inf
        while True:
            left = self._last_call + idle - trio.current_time()
            if left <= 0 and not self._calls:
                break
            await trio.sleep(max(left, 1.0))
        self._is_wanted, self._connection = False, None
        scope.cancel()

    async def _check_alive(self, connection: "Connection") -> None:
        """Break the connection if the server does not list its tools after a cancelled call."""
        with trio.move_on_after(SIGN_OF_LIFE):
            with suppress(ServerRefused):
                await connection.list_tools()
            return
        raise NotConnected("it answered neither a call nor the request after it")

    async def _load_tools(self, connection: "Connection", nursery: trio.Nursery) -> None:
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
        self._offered = offered
        offer = self._compare()
        self._note_stray_rules([tool.name for tool in offered])
        self._publish()
        if offer.waiting and book.told != offer.code:
            book.told = offer.code
            await self._store.write(book)
            names = ", ".join(tool.name for tool in offer.waiting)
            words = (
                f"The MCP server {self.name} has new or changed tools: "
                f"{one_line(names, 500)}. They are off until you accept them."
            )
            nursery.start_soon(self._tell, words, (f"/mcp accept {self.name}",), None)

    async def _list_completions(self, connection: "Connection") -> None:
        """Store the resources and prompts that a terminal completes, if the server lists them."""
        within = self._settings.start_timeout
        with suppress(NotConnected, ServerRefused, DiskFull), trio.move_on_after(within):
            listed = await connection.list_resources(), await connection.list_prompts()
            completions = format_completions(self.name, *listed)
            if completions != self._book.completions:
                self._book.completions = completions
                self._publish()
                await self._store.write(self._book)

    def _compare(self) -> Offer:
        book = self._book
        self._offer = compare(self.name, self._offered, book.accepted, book.left_out)
        return self._offer

    def _note_stray_rules(self, offered: Sequence[str]) -> None:
        """Log the configured rules for tools that the server does not have."""
        stray = tuple(name for name in self._settings.tools if name not in offered)
        if stray != self._stray:
            for name in stray:
                where = f"mcp_servers.{self.name}.tools.{name}"
                near = get_close_matches(name, offered, n=1)
                hint = {"did_you_mean": near[0]} if near else {}
                log.warning(
                    "rule for a tool that the server does not offer", extra={"at": where, **hint}
                )
        self._stray = stray

    def _publish(self) -> None:
        """Publish the accepted tools and the completions, whether or not the server runs."""
        tools = list(self._book.accepted.values())
        if self._offer is not None:
            tools = list(self._offer.usable)
        tools = [] if self._book.off else tools
        why = "has changed or is no longer offered"
        if self._book.off:
            why = f"is off, like all tools of {self.name}"
        gone = [one for name, one in self._book.accepted.items() if one not in tools]
        completions = {} if self._book.off else self._book.completions
        self._show(tools, {tool.name: why for tool in gone}, completions)

    # --- calls --------------------------------------------------------------------------------

    async def _handle_request(self, request: CallTool | ReadResource | ReadPrompt) -> None:
        """Reply to *request*; stop when the requester has given up."""
        with request.reply.while_wanted():
            request.reply.set(await self._answer_request(request))

    async def _answer_request(
        self, request: CallTool | ReadResource | ReadPrompt
    ) -> CallDone | CallFailed:
        call, repeats = request if isinstance(request, CallTool) else None, True
        if self._book.off:
            return CallFailed(f"the MCP server {self.name} is off")
        if call is not None:
            repeats = call.repeats
            accepted = self._book.accepted.get(call.tool)
            if accepted is None or accepted.pin != call.pin:
                return CallFailed(f"{call.tool} is off: the owner has not accepted this version")
        is_sent = False
        limit = self._settings.timeout
        with trio.move_on_after(limit - min(TO_SAY_WHAT, limit / 10)):
            for tries in range(2):
                connection = await self._wait_for_connection(patient=tries > 0)
                if isinstance(connection, CallFailed):
                    return connection
                if call is not None and not any(tool.pin == call.pin for tool in self._usable):
                    why = f"{call.tool} has changed, so it is off until the owner accepts it"
                    return CallFailed(why)
                is_sent = not repeats
                answer = await self._send_request(connection, request)
                if answer is not None:
                    return answer
                if not repeats:
                    break
            return CallFailed(f"the MCP server {self.name} stopped during the call", is_sent)
        return CallFailed(f"the MCP server {self.name} did not answer in time", is_sent)

    @property
    def _usable(self) -> Sequence[ToolDefinition]:
        return self._offer.usable if self._offer is not None else ()

    async def _wait_for_connection(self, *, patient: bool) -> "Connection | CallFailed":
        """Wait for a connection, and start the server if it is not running."""
        if not self._is_wanted:
            self._is_wanted = True
            self._changed.give()
        while (connection := self._connection) is None:
            left = self._restart_at - trio.current_time()
            is_away = self._state == "waiting" and not patient and left > SOON
            if is_away or self._state in ("off", "parked", "login"):
                return CallFailed(f"the MCP server {self.name} {self._describe_state()}")
            await self._changed.wait()
        return connection

    async def _send_request(
        self, connection: "Connection", request: CallTool | ReadResource | ReadPrompt
    ) -> CallDone | None:
        """Send *request* to the server; return None if the connection was lost."""
        self._used += 1
        number = self._used
        self._calls[number] = label = _label(request)
        self._askers[number] = request.asker
        try:
            async with self._slots:
                with show_wait(label):
                    rendered, failed = await self._fetch_result(connection, request, number)
        except NotConnected:
            if self._connection is connection:
                self._connection = None
            return None
        except ServerRefused as error:
            return CallDone(one_line(str(error), 2000), failed=True)
        except trio.Cancelled:
            if self._life is not None and self._connection is connection:
                self._life.start_soon(self._check_alive, connection)
            raise
        finally:
            del self._calls[number], self._askers[number]
            self._last_call = trio.current_time()
        if not rendered.files:
            return CallDone(rendered.text, failed)
        text, pictures = await self._keep(rendered)
        return CallDone(text, failed, pictures)

    async def _fetch_result(
        self, connection: "Connection", request: CallTool | ReadResource | ReadPrompt, number: int
    ) -> tuple[Rendered, bool]:
        folder = f"mcp/{self.name}"
        match request:
            case ReadResource(uri=""):
                text = format_listing(await connection.list_resources(), "resources")
                return fit_text(text, folder, {}), False
            case ReadResource(uri=uri):
                return resources(await connection.read_resource(uri), folder), False
            case ReadPrompt(name=""):
                text = format_listing(await connection.list_prompts(), "prompts")
                return fit_text(text, folder, {}), False
            case ReadPrompt(name=name, arguments=given):
                return messages(await connection.read_prompt(name, given), folder), False
            case CallTool():

                async def show_progress(
                    progress: float, total: float | None, message: str | None
                ) -> None:
                    await trio.lowlevel.checkpoint()
                    of = f" of {total:g}" if total else ""
                    words = f"{_label(request)}: {progress:g}{of} {message or ''}"
                    self._calls[number] = one_line(words, 200)
                    self._changed.give()

                result = await connection.call(request.tool, request.arguments, show_progress)
                return render(result.content, result.structured, folder), result.failed

    async def _elicit(self, form: Block) -> Block:
        """Put the fields of the server's form to the owner, where the newest call was made.

        Cancel it if no call is in progress, or if the answers take too long.
        """
        if not self._calls or self._is_asking:
            return {"action": "cancel"}
        asker = next(reversed(self._askers.values()), None)
        steps = questions(self.name, form)
        if isinstance(steps, str):
            words = f"The MCP server {self.name} asked a question, and I declined: {steps}."
            await self._tell(words, (), asker)
            return {"action": "decline"}
        content: dict[str, object] = {}
        self._is_asking = True
        try:
            with trio.move_on_after(TO_ANSWER):
                for step in steps:
                    self._question, self._reply = step, Reply()
                    await self._tell(step.words, step.buttons, asker)
                    answer = await self._reply.wait()
                    if answer is None:
                        return {"action": "decline"}
                    content.update(answer)
                # A page has no fields, so its answer has no content.
                is_page = form.get("mode") == "url"
                return {"action": "accept"} | ({} if is_page else {"content": content})
            return {"action": "cancel"}
        finally:
            self._question, self._is_asking = None, False

    def _answer_question(self, words: str, *, decline: bool) -> str:
        if (prompt := self._question) is None:
            return f"{self.name} is not waiting for an answer."
        content = {} if decline else answer_to(prompt, words)
        if isinstance(content, str):
            return f"I could not send that answer: {content}."
        self._question = None  # until the next step
        self._reply.set(None if decline else content)
        return f"I told {self.name} that you decline." if decline else "Answer sent."

    # --- status and commands for the owner -------------------------------------------------------

    def _set_state(self, state: State) -> None:
        self._state = state
        self._note_trouble(self._trouble)
        self._changed.give()

    @property
    def _state_text(self) -> str:
        """Format the state of the server in a few words."""
        return {
            "off": "off",
            "idle": "not started",
            "starting": "starting",
            "ready": "ready",
            "waiting": f"not running (retrying): {self._why}",
            "parked": f"stopped (not retrying): {self._why}",
            "login": LOGIN.format(self.name),
        }[self._state]

    def _describe_state(self) -> str:
        return f"{'' if self._state == 'login' else 'is '}{self._state_text}"

    @property
    def _trouble(self) -> str:
        """Why only the owner can start the server again, with its last error output; "" if not."""
        if self._state not in ("parked", "login"):
            return ""
        lines = (one_line(line, MAX_ERROR) for line in self._errors.text.splitlines()[-MAX_LINES:])
        return "\n".join((f"MCP server {self.name} {self._describe_state()}", *lines))

    def _summarize(self) -> str:
        parts = [self._state_text]
        if (connection := self._connection) is not None:
            parts.append(f"protocol {connection.version} ({connection.era})")
            parts += [f"{self._size >> 20} MB"] if self._size else []
        if self._offer is not None:
            count = len(self._usable)
            parts.append(f"{count} tool{'s' * (count != 1)}")
            if self._offer.waiting:
                parts.append(f"{len(self._offer.waiting)} not accepted yet")
        if self._stray:
            names = ", ".join(self._stray)
            parts.append(
                f"mcp_servers.{self.name}.tools has rules for tools that do not exist: {names}"
            )
        if self._restarts:
            parts.append(f"restarts: {self._restarts}")
        if self._why and self._state not in ("waiting", "parked", "login"):
            parts.append(f"last error: {self._why}")
        return "; ".join([*parts, *self._calls.values()])

    async def _show_state(self) -> None:
        """Show the state of the server in `elwood inspect`."""
        while True:
            what = f"requests ({self._summarize()})"
            with show_wait(what), trio.move_on_after(LOOK_EVERY) as scope:
                await self._changed.wait()
            if scope.cancelled_caught:
                self._size = await self._blocking(self._rss)

    async def _handle_steer(self, steer: Steer) -> None:
        try:
            steer.reply.set(await self._run_steer(steer))
        except DiskFull as error:
            steer.reply.set(Steered(f"I could not do that: {error}"))

    async def _run_steer(self, steer: Steer) -> Steered:
        name = self.name
        match steer.what:
            case "summary":
                return Steered(f"{name}: {self._summarize()}")
            case "show":
                tool = next((one for one in self._known_tools if one.name == steer.words), None)
                shown = describe_tool(tool) if tool is not None else await self._describe_tools()
                return Steered(fence(shown) if tool is not None else shown)
            case "enable" | "restart":
                self._book.off = False
                await self._store.write(self._book)
                self._crashes, self._legacy = [], False
                self._publish()
                self._is_wanted = True
                self._set_state("idle")
                self._scope.cancel()
                return Steered(f"I am starting {name}.")
            case "disable":
                self._book.off = True
                await self._store.write(self._book)
                self._publish()
                self._set_state("off")
                self._scope.cancel()
                return Steered(f"{name} is off until you type /mcp enable {name}.")
            case "accept":
                return await self._accept(steer.words)
            case "omit":
                return await self._omit(steer.words.split())
            case "answer" | "decline" as what:
                return Steered(self._answer_question(steer.words, decline=what == "decline"))

    async def _describe_tools(self) -> str:
        self._size = await self._blocking(self._rss)
        lines = [f"{self.name}: {self._summarize()}"]
        offer = self._offer or Offer(usable=tuple(self._book.accepted.values()))
        lines += [f"- {tool.name}" for tool in offer.usable]
        lines += [f"- {tool.name}: off until you accept it" for tool in offer.waiting]
        lines += [f"- {name}: left out" for name in offer.left_out]
        lines += [f"- {name}: no longer offered" for name in offer.gone]
        lines += [f"- {one_line(one)}: refused: {why}" for one, why in offer.refused.items()]
        return "\n".join(lines)

    async def _accept(self, code: str) -> Steered:
        """Show the pending tools, or accept them if *code* is theirs.

        Words that name tools which were left out make these pending again.
        """
        if back := [name for name in code.split() if name in self._book.left_out]:
            for name in back:
                del self._book.left_out[name]
            await self._store.write(self._book)
            self._compare()
        offer = self._offer
        if offer is None:
            return Steered(
                f"{self.name} has not listed its tools yet. It {self._describe_state()}."
            )
        if not offer.waiting:
            return Steered(f"{self.name} has no tools to accept.")
        if code != offer.code:
            text = review(offer, self._book.accepted)
            head = f"{self.name} describes its tools as follows (unverified):"
            tail = (
                f"/mcp show {self.name} TOOL shows the arguments of a tool, and "
                f"/mcp omit {self.name} TOOL… leaves tools out."
            )
            button = f"/mcp accept {self.name} {offer.code}"
            return Steered(f"{head}\n\n{fence(text)}\n\n{tail}", (button,))
        accepted = {tool.name: tool for tool in offer.waiting}
        self._book.accepted = dict(sorted((self._book.accepted | accepted).items()))
        await self._store.write(self._book)
        self._compare()
        self._publish()
        self._changed.give()
        return Steered(f"Accepted from your next message on: {', '.join(accepted)}.")

    @property
    def _known_tools(self) -> Sequence[ToolDefinition]:
        return self._offered or tuple(self._book.accepted.values())

    async def _omit(self, names: Sequence[str]) -> Steered:
        """Leave the tools *names* out, until they change; then show those that are pending."""
        known = {tool.name: tool for tool in self._known_tools}
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            return Steered(f"{self.name} has the tools {', '.join(known)}.", ok=False)
        for name in names:
            self._book.left_out[name] = known[name].pin
            self._book.accepted.pop(name, None)
        await self._store.write(self._book)
        if self._offer is not None:
            self._compare()
        self._publish()
        self._changed.give()
        done = f"Left out: {', '.join(names)}."
        if self._offer is None or not self._offer.waiting:
            return Steered(done)
        rest = await self._accept("")
        return Steered(f"{done}\n\n{rest.words}", rest.buttons)


def _explain(error: BaseException, words: str, settings: ServerSettings) -> str:
    """Explain a crash to the owner, with the last *words* of the server's stderr."""
    if words.startswith("bwrap: execvp ") and "No such file" in words:
        # Bubblewrap's own message names neither the cause nor the remedy.
        return (
            f"could not start {settings.command}; the program or its interpreter is not visible "
            "in the sandbox (add its folder to mounts)"
        )
    why = error_text(error)
    return f"{why} (last error output: {words})" if words else why


def _label(request: CallTool | ReadResource | ReadPrompt) -> str:
    match request:
        case CallTool(tool=tool):
            return tool
        case ReadResource(uri=uri):
            return one_line(f"reading {uri or 'the list of resources'}", 100)
        case ReadPrompt(name=name):
            return one_line(f"reading the prompt {name}", 100)
