"""Adapter for the official SDK: one connection to one server.

Imported in a worker thread when a server starts: the SDK takes a second and 37 MB. Elwood starts
the processes itself (`serve`), because those of the SDK have no line limit and no sandbox.
"""

import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio
import mcp_types as types
import msgspec
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import Transport, TransportStreams
from mcp.client.auth.oauth2 import OAuthClientProvider, OAuthContext, TokenStorage
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import AnyUrl, BaseModel, ValidationError

import elwood
from elwood.features.mcp.definitions import ToolDefinition, canonical
from elwood.features.mcp.lines import (
    MAX_GARBAGE,
    MAX_LINE,
    LastWords,
    UnreadableLine,
    guess_request_id,
    read_message,
)
from elwood.features.mcp.login import REDIRECT, Login, Redirect
from elwood.features.mcp.messages import LOGIN, NeedsLogin, NoAnswer, NotConnected, ServerRefused
from elwood.features.mcp.results import Block
from elwood.features.mcp.settings import ServerSettings
from elwood.features.mcp.store import LoginStore
from elwood.foundation.runtime import Blocking, in_thread
from elwood.foundation.sandbox.pipes import Pipe, from_child, to_child

if TYPE_CHECKING:
    from elwood.foundation.net.library_client import LibraryClient

T = TypeVar("T")
log = logging.getLogger("elwood.mcp")
# For each bad line the SDK logs 20 lines at ERROR, with the server's text.
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

# Seconds for a server to exit after its stdin was closed.
GOODBYE = 2.0
# Bytes per read; longer lines than _LONG are parsed in a thread.
_CHUNK, _LONG = 1 << 16, 1 << 18
# Seconds before subscribing to changes again after the stream has ended.
AGAIN = 30.0
# Maximum pages of a list.
MAX_PAGES = 50
# Maximum pending requests; the actor makes far fewer calls.
MAX_PENDING = 1000


class CallResult(msgspec.Struct, frozen=True):
    """Result of a tool call."""

    content: Sequence[Block]  # JSON blocks
    structured: object = None  # checked against the tool's output schema
    failed: bool = False


class Connection:
    """Connection to one server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.version = client.protocol_version

    @property
    def era(self) -> Literal["modern", "legacy"]:
        return "modern" if self._client.session.discover_result else "legacy"

    @property
    def offers(self) -> types.ServerCapabilities:
        return self._client.server_capabilities

    async def list_tools(self) -> list[ToolDefinition]:
        if self.offers.tools is None:
            return []
        listed = await self._pages(self._client.list_tools, lambda page: page.tools)
        return [_definition(tool) for tool in listed]

    async def call(self, tool: str, arguments: dict[str, Any], progress: ProgressFnT) -> CallResult:
        """Call *tool*.  Cancelling this call cancels it on the server."""
        result = await _await_answer(
            self._client.call_tool(tool, arguments, progress_callback=progress)
        )
        return CallResult(
            [_to_block(one) for one in result.content],
            result.structured_content,
            bool(result.is_error),
        )

    async def read_resource(self, uri: str) -> list[Block]:
        result = await _await_answer(self._client.read_resource(uri))
        return [_to_block(one) for one in result.contents]

    async def read_prompt(self, name: str, arguments: dict[str, str]) -> list[Block]:
        result = await _await_answer(self._client.get_prompt(name, arguments))
        return [_to_block(one) for one in result.messages]

    async def list_resources(self) -> list[Block]:
        if self.offers.resources is None:
            return []
        listed = await self._pages(self._client.list_resources, lambda page: page.resources)
        more = await self._pages(
            self._client.list_resource_templates, lambda page: page.resource_templates
        )
        return [_to_block(one) for one in (*listed, *more)]

    async def list_prompts(self) -> list[Block]:
        if self.offers.prompts is None:
            return []
        listed = await self._pages(self._client.list_prompts, lambda page: page.prompts)
        return [_to_block(one) for one in listed]

    async def watch(self, changed: Callable[[], object]) -> None:
        """Call *changed* when the tools of a server with the new protocol change."""
        tools = self.offers.tools
        while self.era == "modern" and tools is not None and tools.list_changed:
            try:
                async with self._client.listen(tools_list_changed=True) as events:
                    async for _ in events:
                        changed()
            except MCPError as error:
                log.debug("server does not announce changes", extra={"why": str(error)})
                return
            except SubscriptionLost:
                changed()  # changes may have been missed
            await trio.sleep(AGAIN)

    async def _pages(
        self, ask: Callable[..., Awaitable[Any]], items: Callable[[Any], Sequence[T]]
    ) -> list[T]:
        listed: list[T] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await _await_answer(ask(cursor=cursor))
            listed += items(page)
            cursor = page.next_cursor
            if cursor is None:
                return listed
        raise ServerRefused(f"its list has more than {MAX_PAGES} pages")


async def _await_answer(answer: Awaitable[T]) -> T:
    """Await an *answer* of the SDK. Raises NotConnected and ServerRefused."""
    try:
        return await answer
    except MCPError as error:
        if error.code == types.CONNECTION_CLOSED:
            raise NotConnected("the connection was closed") from error
        raise ServerRefused(f"error {error.code}: {error.message}") from error
    except ValidationError as error:
        raise ServerRefused("its answer does not follow the protocol") from error
    except RuntimeError as error:  # raised by the SDK if a result does not match its schema
        raise ServerRefused(str(error)) from error
    except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
        raise NotConnected("the connection is closed") from error


def _to_block(model: BaseModel) -> Block:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _definition(tool: types.Tool) -> ToolDefinition:
    hints = tool.annotations and tool.annotations.model_dump(by_alias=True, exclude_none=True)
    return ToolDefinition(
        name=tool.name,
        title=tool.title or "",
        description=tool.description or "",
        input=canonical(tool.input_schema),
        output=canonical(tool.output_schema),
        annotations=canonical(hints),
    )


@asynccontextmanager
async def connect(
    transport: Transport,
    *,
    legacy: bool,
    within: float,
    changed: Callable[[], object],
    elicit: Callable[[Block], Awaitable[Block]],
) -> AsyncIterator[Connection]:
    """Connect by *transport* for the block; the server must answer within *within* seconds.

    *changed* is called when the server's tool list changes, *elicit* when the server asks the owner
    something.  Raises NotConnected and the errors of the transport, in groups.
    """

    async def handle_message(message: object) -> None:
        await trio.lowlevel.checkpoint()
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    async def ask_owner(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        return types.ElicitResult.model_validate(await elicit(_to_block(params)))

    client = Client(
        transport,
        mode="legacy" if legacy else "auto",
        cache=None,
        client_info=types.Implementation(name="elwood", version=elwood.__version__),
        message_handler=handle_message,
        elicitation_callback=ask_owner,
    )
    with trio.CancelScope(deadline=trio.current_time() + within) as starting:
        async with client:
            starting.deadline = math.inf
            yield Connection(client)
    if starting.cancelled_caught:
        raise NoAnswer(f"it did not answer within {within:g} s")


def remote(
    url: str, kind: Literal["http", "sse"], client: Callable[[], "LibraryClient"]
) -> Transport:
    """Create the transport to the server at *url*, with our HTTP *client*."""
    if kind == "sse":

        def make_client(headers: object = None, timeout: object = None, auth: object = None) -> Any:
            return client()

        return sse_client(url, httpx_client_factory=make_client)
    return _streamable(url, client)


@asynccontextmanager
async def _streamable(
    url: str, client: Callable[[], "LibraryClient"]
) -> AsyncIterator[TransportStreams]:
    http = client()
    async with (
        http,
        streamable_http_client(url, http_client=http, max_sse_event_size=MAX_LINE) as streams,
    ):
        yield streams


class _StoredLogin(TokenStorage):
    """Store a login in *store*, with the metadata that the SDK found about its issuer."""

    def __init__(self, settings: ServerSettings, store: LoginStore) -> None:
        self._settings = settings
        self._store = store
        self.context: OAuthContext | None = None

    async def get_tokens(self) -> OAuthToken | None:
        login = await in_thread(lambda: self._store.read(self._settings.url))
        if login.tokens is None:
            return None
        tokens = OAuthToken.model_validate(login.tokens)
        if login.expires and login.expires < time.time():
            tokens.access_token = ""  # force a refresh: the SDK does not know how old the token is
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires = time.time() + tokens.expires_in if tokens.expires_in else 0.0
        await self._keep(tokens=_to_block(tokens), expires=expires)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._settings.client_id:
            secret = self._settings.client_secret
            return OAuthClientInformationFull(
                client_id=self._settings.client_id,
                client_secret=secret.reveal() if secret else None,
                token_endpoint_auth_method="client_secret_basic" if secret else "none",
                redirect_uris=[AnyUrl(REDIRECT)],
            )
        login = await in_thread(lambda: self._store.read(self._settings.url))
        if login.client is None:
            return None
        return OAuthClientInformationFull.model_validate(login.client)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._keep(client=_to_block(client_info))

    async def _keep(self, **changed: Any) -> None:
        def keep() -> None:
            login = msgspec.structs.asdict(self._store.read(self._settings.url))
            self._store.write(Login(**{**login, **metadata, **changed}))

        context, metadata = self.context, {}
        if context is not None and context.oauth_metadata is not None:
            metadata["issuer"] = _to_block(context.oauth_metadata)
        if context is not None and context.protected_resource_metadata is not None:
            metadata["resource"] = _to_block(context.protected_resource_metadata)
        await in_thread(keep)


class _Refreshing(OAuthClientProvider):
    """Refresh a token that the server refuses before its time, and send the request again."""

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        flow, is_new = super().async_auth_flow(request), False
        asked = await anext(flow)
        while True:
            answer = yield asked
            if answer.status_code == 401 and asked is request and not is_new:
                is_new = True
                if self.context.can_refresh_token():
                    refreshed = yield await self._refresh_token()
                    if await self._handle_refresh_response(refreshed):
                        self._add_auth_header(request)
                        answer = yield request
            try:
                asked = await flow.asend(answer)
            except StopAsyncIteration:
                return


def oauth(
    settings: ServerSettings,
    store: LoginStore,
    show: Callable[[str], Awaitable[None]] | None = None,
    answer: Callable[[], Awaitable[Redirect]] | None = None,
) -> OAuthClientProvider:
    """Create the OAuth provider: log in with *show* and *answer*, or only use the stored login."""

    async def wait_for_redirect() -> AuthorizationCodeResult:
        assert answer is not None
        redirect = await answer()
        return AuthorizationCodeResult(
            code=redirect.code, state=redirect.state, iss=redirect.issuer
        )

    async def refuse_login(url: str) -> None:
        await trio.lowlevel.checkpoint()
        raise NeedsLogin(LOGIN.format(store.name))

    storage, login = _StoredLogin(settings, store), store.read(settings.url)
    provider = _Refreshing(
        settings.url,
        OAuthClientMetadata(
            client_name="Elwood",
            redirect_uris=[AnyUrl(REDIRECT)],
            grant_types=["authorization_code", "refresh_token"],
            scope=settings.scope or None,
        ),
        storage,
        redirect_handler=show or refuse_login,
        callback_handler=wait_for_redirect,
    )
    storage.context = provider.context
    if login.issuer is not None:
        provider.context.oauth_metadata = OAuthMetadata.model_validate(login.issuer)
    if login.resource is not None:
        resource = ProtectedResourceMetadata.model_validate(login.resource)
        provider.context.protected_resource_metadata = resource
        provider.context.auth_server_url = str(resource.authorization_servers[0])
    return provider


# --- a process of ours ----------------------------------------------------------------------------

Run = Callable[[Sequence[Pipe]], Awaitable[str]]
"""Runs the server with these pipes; returns why it ended, when nothing of it is alive."""


@asynccontextmanager
async def serve(run: Run, errors: LastWords, blocking: Blocking) -> AsyncIterator[TransportStreams]:
    """Run a process and exchange lines with it for the block.

    At the end its stdin is closed; it is killed if it does not exit.  Its stderr goes to *errors*.
    Raises NotConnected, in a group.
    """
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    ended, is_over = trio.Event(), False
    with ExitStack() as stack:
        stdin, stdout, stderr = (
            stack.enter_context(pipe) for pipe in (to_child(), from_child(), from_child())
        )
        lines = _Lines(stdout, incoming, blocking)

        async def process() -> None:
            try:
                why = await run((stdin, stdout, stderr))
            finally:
                ended.set()
            await lines.finished.wait()
            if not is_over:
                raise NotConnected(why)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(process)
            nursery.start_soon(lines.read)
            nursery.start_soon(_write_messages, stdin, outgoing, lines.pending)
            nursery.start_soon(_drain_stderr, stderr, errors)
            try:
                yield read, write
            finally:
                is_over = True
                with trio.move_on_after(GOODBYE, shield=True):
                    stdin.hang_up()
                    await ended.wait()
                nursery.cancel_scope.cancel()
                for stream in (incoming, read, write, outgoing):
                    stream.close()


class _Lines:
    """Reads messages from *pipe*; *pending* holds the ids of unanswered requests."""

    def __init__(
        self,
        pipe: Pipe,
        heard: MemoryObjectSendStream[SessionMessage | Exception],
        blocking: Blocking,
    ) -> None:
        self._pipe = pipe
        self._heard = heard
        self._blocking = blocking
        self._garbage = 0
        self.pending: dict[int | str, None] = {}
        self.finished = trio.Event()

    async def read(self) -> None:
        """Read to the end.  Raises NotConnected for a fatal fault."""
        buffer = bytearray()
        try:
            while data := await self._pipe.read_some(_CHUNK):
                await trio.lowlevel.checkpoint()  # the process may write without pause
                start = len(buffer)
                buffer += data
                while (end := buffer.find(b"\n", start)) >= 0:
                    line = bytes(buffer[:end])
                    del buffer[: end + 1]
                    start = 0
                    await self._handle_line(line)
                if len(buffer) > MAX_LINE:
                    raise NotConnected(f"it wrote a line longer than {MAX_LINE >> 20} MiB")
        finally:
            self.finished.set()

    async def _handle_line(self, line: bytes) -> None:
        if len(line) > MAX_LINE:
            raise NotConnected(f"it wrote a line longer than {MAX_LINE >> 20} MiB")
        if not line.strip():
            return
        read = partial(_parse_message, line)
        try:
            message = read() if len(line) < _LONG else await self._blocking(read)
        except UnreadableLine as error:
            self._garbage += 1
            log.debug("unreadable line", extra={"why": str(error), "line": line[:200]})
            if self._garbage >= MAX_GARBAGE:
                raise NotConnected(f"it wrote {MAX_GARBAGE} unreadable lines") from error
            id_ = guess_request_id(line)
            if id_ is None or id_ not in self.pending:
                return
            words = types.ErrorData(code=types.PARSE_ERROR, message=f"unreadable answer: {error}")
            message = types.JSONRPCError(jsonrpc="2.0", id=id_, error=words)
        else:
            self._garbage = 0
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            if message.id is None or message.id not in self.pending:
                log.debug("answer without a request", extra={"id": str(message.id)[:40]})
                return
            del self.pending[message.id]
        await self._heard.send(SessionMessage(message))


def _parse_message(line: bytes) -> types.JSONRPCMessage:
    try:
        return types.jsonrpc_message_adapter.validate_python(read_message(line), by_name=False)
    except ValidationError:
        raise UnreadableLine("it is not a JSON-RPC message") from None


async def _write_messages(
    pipe: Pipe, messages: MemoryObjectReceiveStream[SessionMessage], pending: dict[int | str, None]
) -> None:
    async for message in messages:
        if isinstance(message.message, types.JSONRPCRequest):
            pending[message.message.id] = None
            while len(pending) > MAX_PENDING:
                del pending[next(iter(pending))]
        text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        await pipe.write(text.encode() + b"\n")


async def _drain_stderr(pipe: Pipe, errors: LastWords) -> None:
    while data := await pipe.read_some(_CHUNK):
        await trio.lowlevel.checkpoint()
        errors.add(data)
