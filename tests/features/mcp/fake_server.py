"""An MCP server that follows a plan, and may break the protocol; a separate program.

``python fake_server.py [PLAN]``; the plan is JSON: `tools` are listed, `start` are steps before it
reads anything, `mute` are methods that it never answers, `old` restricts it to the handshake
protocol.  Its tool `do` takes `steps`.  It needs only Python, because it runs in sandboxes.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]  # Any: parsed JSON
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
DO: Json = {
    "name": "do",
    "description": "Does what it is told.",
    "inputSchema": {"type": "object", "properties": {"steps": {"type": "array"}}},
}
ECHO: Json = {
    "name": "echo",
    "description": "Says the same.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}


class FakeServer:
    def __init__(self, plan: Json) -> None:
        self.plan = plan
        self.tools: list[Json] = plan.get("tools", [ECHO, DO])
        self.listening: object = None
        self.old: bool = plan.get("old", False)

    def send(self, message: Json) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    def write(self, text: str) -> None:
        data = text.encode("latin-1")
        while data:
            data = data[os.write(1, data) :]

    def reply(self, id_: object, result: Json) -> None:
        if not self.old:
            result = {"resultType": "complete", **result}
        self.send({"id": id_, "result": result})

    def take(
        self, steps: Iterable[list[Any]], id_: object = None, params: Json | None = None
    ) -> None:
        """Run steps; each is [name, …]."""
        for what, *given in steps:
            if what == "raw":
                self.write(given[0].replace("$ID", str(id_)))
            elif what == "many":
                for _ in range(given[1]):
                    self.write(given[0])
            elif what == "result":
                self.reply(id_, given[0])
            elif what == "text":
                self.reply(id_, {"content": [{"type": "text", "text": given[0]}]})
            elif what == "long":
                self.reply(id_, {"content": [{"type": "text", "text": given[0] * given[1]}]})
            elif what == "error":
                self.send({"id": id_, "error": {"code": given[0], "message": given[1]}})
            elif what == "notify":
                self.send({"method": given[0], "params": given[1] if given[1:] else {}})
            elif what == "progress":
                assert params is not None
                token = params["_meta"]["progressToken"]
                told = {"progressToken": token, "progress": given[0], "message": given[1]}
                self.send({"method": "notifications/progress", "params": told})
            elif what == "ask":
                self.send({"id": given[0], "method": given[1], "params": given[2]})
                self.reply(id_, {"content": [{"type": "text", "text": sys.stdin.readline()}]})
            elif what == "tools":
                self.tools = given[0]
                told = {} if self.old else {"_meta": {SUBSCRIPTION: self.listening}}
                self.send({"method": "notifications/tools/list_changed", "params": told})
            elif what == "sleep":
                time.sleep(given[0])
            elif what == "exit":
                os._exit(given[0])
            elif what == "stderr":
                os.write(2, given[0].encode() * given[1])
            elif what == "child":
                subprocess.Popen(["sleep", given[0]], start_new_session=True)
            elif what == "touch":
                with open(given[0], "a") as file:
                    file.write("x")
            elif what == "environment":
                text = json.dumps(dict(os.environ))
                self.reply(id_, {"content": [{"type": "text", "text": text}]})
            elif what == "read":
                try:
                    with open(given[0]) as file:
                        text = file.read()
                except OSError as error:
                    text = f"not read: {error.strerror}"
                self.reply(id_, {"content": [{"type": "text", "text": text}]})
            else:
                raise AssertionError(what)

    def answer(self, message: Json) -> None:
        method, id_ = message.get("method"), message.get("id")
        params = message.get("params", {})
        if id_ is None or method is None or method in self.plan.get("mute", ()):
            return
        offers = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
        more = {} if self.old else {"ttlMs": 0, "cacheScope": "private"}
        if method == "server/discover" and not self.old:
            versions = {"supportedVersions": ["2026-07-28"], "capabilities": offers}
            self.reply(id_, {**versions, "ttlMs": 0, "cacheScope": "private"})
        elif method == "initialize":
            told = {"protocolVersion": "2025-11-25", "capabilities": offers}
            self.reply(id_, {**told, "serverInfo": {"name": "fake", "version": "1"}})
        elif method == "ping":
            self.reply(id_, {})
        elif method == "tools/list":
            self.reply(id_, {"tools": self.tools, **more})
        elif method == "subscriptions/listen":
            told = {"notifications": params["notifications"], "_meta": {SUBSCRIPTION: id_}}
            self.send({"method": "notifications/subscriptions/acknowledged", "params": told})
            self.listening = id_
        elif method == "resources/list":
            one: Json = {"uri": "note://1", "name": "first", "description": "a note"}
            self.reply(id_, {"resources": [one], **more})
        elif method == "resources/templates/list":
            one = {"uriTemplate": "note://{number}", "name": "any"}
            self.reply(id_, {"resourceTemplates": [one], **more})
        elif method == "resources/read":
            found = [{"uri": params["uri"], "text": "what is in it"}]
            self.reply(id_, {"contents": found, **more})
        elif method == "prompts/list":
            needs = [{"name": "city", "required": True}]
            one = {"name": "weather", "description": "of a city", "arguments": needs}
            self.reply(id_, {"prompts": [one], **more})
        elif method == "prompts/get":
            text = f"Say how the weather is in {params['arguments']['city']}."
            said = {"role": "user", "content": {"type": "text", "text": text}}
            self.reply(id_, {"messages": [said]})
        elif method == "tools/call" and "inputResponses" in params:
            text = json.dumps(params["inputResponses"])
            self.reply(id_, {"content": [{"type": "text", "text": text}]})
        elif method == "tools/call":
            given = params.get("arguments", {})
            if params["name"] == "do":
                self.take(given["steps"], id_, params)
            elif params["name"] in {tool["name"] for tool in self.tools}:
                text = str(given.get("text", ""))
                self.reply(id_, {"content": [{"type": "text", "text": text}]})
            else:
                self.send({"id": id_, "error": {"code": -32602, "message": "unknown tool"}})
        else:
            self.send({"id": id_, "error": {"code": -32601, "message": f"no {method}"}})

    def run(self) -> None:
        self.take(self.plan.get("start", ()))
        for line in sys.stdin:
            self.answer(json.loads(line))


if __name__ == "__main__":
    FakeServer(json.loads(sys.argv[1]) if sys.argv[1:] else {}).run()
