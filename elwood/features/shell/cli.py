"""``elwood policy explain``: show the decision and the line that makes it."""

import json
import re
from argparse import Namespace
from pathlib import Path

from elwood.agent.conversation.labels import Label
from elwood.agent.policy.decide import Allow, Ask, Decision, Rules, Situation, decide
from elwood.agent.policy.settings import PolicySettings, is_about
from elwood.agent.tools.known import TALK
from elwood.features.shell.rules import rule
from elwood.features.shell.tools import ID, NAME
from elwood.foundation.command_line import OK, show_json
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.settings import Config, Paths


def explain(config: Config, given: Namespace) -> int:
    """Print the setting for a tool, or the decision about a command.

    A command is decided for the owner, also after the conversation has read untrusted text.
    """
    policy, workspace = config.get(PolicySettings), str(config.get(Paths).workspace)
    ids = TALK | {name: id for one in given.features for name, id in one.tools.items()}
    for one in given.features:
        ids |= one.live(config).known
    tool = next((name for name, id in ids.items() if given.text in (name, id)), None)
    if tool is not None:
        name, meaning, by = _explain_tool(config.file, policy, tool, ids[tool])
        _print(given, name, [meaning], by)
        return OK
    confined = config.get(SandboxSettings).kind != "direct"
    ruling = rule(given.text, policy, workspace, confined=confined)
    word = policy.word(NAME, ID)
    rules = Rules(tools={} if word is None else {NAME: word})
    decision, after_reading = (
        decide(NAME, ruling.action, Situation(label=label, principal="owner"), rules)
        for label in (Label(), Label(untrusted=True))
    )
    setting, line = ruling.setting, ruling.line
    if word is not None and decision.why.endswith(f" {NAME}"):
        setting = f"policy.{word}"
        line = next(
            one for verdict, one in policy.words() if verdict == word and is_about(one, NAME, ID)
        )
    by = "Elwood's defaults; your configuration has no rule for it."
    if setting:
        by = f"{setting}: {line}{_describe_place(config.file, setting.partition('.')[2], line)}"
    decisions = dict.fromkeys((_format_decision(decision), _format_decision(after_reading)))
    _print(given, given.text, list(decisions), by)
    return OK


def _print(given: Namespace, subject: str, decisions: list[str], by: str) -> None:
    """Print the decision; a second one is for a conversation that has read strangers' words."""
    if given.json:
        later = decisions[-1]
        show_json(
            {"subject": subject, "decision": decisions[0], "after_strangers": later, "by": by}
        )
        return
    print(f"{subject}\n  {decisions[0]}\n  Decided by {by}")
    for one in decisions[1:]:
        print(f"After the conversation has read strangers' words:\n  {one}")


def _explain_tool(file: Path, policy: PolicySettings, tool: str, id: str) -> tuple[str, str, str]:
    """Describe the owner's setting for a tool; each call is decided by what it would do."""
    known = ((word, one) for word, one in policy.words() if is_about(one, tool, id))
    word, line = next(known, (None, ""))
    meaning = {
        None: "Your configuration has no rule for it: each call is decided by what it would do",
        "deny": "Elwood never runs it",
        "ask": "Elwood asks you before each call",
        "allow": "Elwood runs it without asking, except calls that strangers' words may have "
        "caused and calls that always need your yes",
    }[word]
    by = (
        f"policy.{word}: {line}{_describe_place(file, word, line)}" if word else "Elwood's defaults"
    )
    return f"{tool} ({id})", f"{meaning}.", f"{by}."


def _format_decision(decision: Decision) -> str:
    match decision:
        case Allow(why):
            return f"Elwood runs it without asking: {why or 'it only reads'}."
        case Ask(why, remember):
            always = "you can allow it for good" if remember else "each time"
            return f"Elwood asks you ({always}): {why}."
    return f"Elwood never runs it: {decision.why}."


def _describe_place(file: Path, key: str, line: str) -> str:
    """Describe where *file* has the line; a line from an environment variable is not in it."""
    lines = file.read_text().splitlines()
    at = next((n for n, text in enumerate(lines) if re.match(rf"\s*([\w.]*\.)?{key}\s*=", text)), 0)
    quoted = (f"'{line}'", json.dumps(line))
    numbers = (n for n in range(at, len(lines)) if any(one in lines[n] for one in quoted))
    number = next(numbers, None)
    return "" if number is None else f" ({file}, line {number + 1})"
