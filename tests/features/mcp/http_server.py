"""An MCP server of the SDK, over HTTP: ``python http_server.py KIND``; prints its port.

KIND is `http` or `sse`.  Its tool `seen` returns the headers of the call.
"""

import json
import socket
import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("far")


@server.tool()
def echo(text: str) -> str:
    """Return the same text."""
    return text


@server.tool()
def seen(context: Context[Any, Any]) -> str:
    """Return the headers of the call."""
    request = context.request_context.request
    return json.dumps(dict(request.headers) if request is not None else {})


@server.resource("note://1")
def note() -> str:
    """A note."""
    return "what is in it"


if __name__ == "__main__":
    app = server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])
