"""Memory of messages that were read from a log."""

import sys

import msgspec

from elwood.agent.conversation.message import Assistant, Prompt, ToolSpec, Usage
from elwood.agent.session.log.entries import Prompted, Said

SCHEMA = msgspec.Raw(b'{"type":"object"}')


def encode_prompt(prompt: Prompt) -> bytes:
    return msgspec.json.encode(Prompted(prompt))


def decode_prompt(given: bytes) -> Prompt:
    return msgspec.json.decode(given, type=Prompted).prompt


def test_a_message_does_not_keep_its_log_line() -> None:
    said = Said("t1", Assistant((), "codec", "model", msgspec.Raw(b'{"content":[]}')), Usage())
    given = msgspec.json.encode(said)
    before = sys.getrefcount(given)
    decoded = msgspec.json.decode(given, type=Said)
    assert bytes(decoded.message.native) == b'{"content":[]}'
    assert sys.getrefcount(given) == before


def test_equal_prompts_are_stored_once() -> None:
    prompt = Prompt("Be good.", (ToolSpec("look", "Looks.", SCHEMA),))
    one, other = decode_prompt(encode_prompt(prompt)), decode_prompt(encode_prompt(prompt))
    assert one == other == prompt
    assert one.system is other.system is prompt.system
    assert one.tools is other.tools is prompt.tools


def test_prompts_with_other_tools_differ() -> None:
    one = Prompt("Be good.", (ToolSpec("look", "Looks.", SCHEMA),))
    other = decode_prompt(encode_prompt(Prompt("Be good.", (ToolSpec("run", "Runs.", SCHEMA),))))
    assert [tool.name for tool in other.tools] == ["run"]
    assert [tool.name for tool in one.tools] == ["look"]
