"""``elwood policy explain``: what would happen with a command, and by which line."""

import json
import re
from argparse import Namespace
from pathlib import Path

from elwood.agent.conversation.labels import Label
from elwood.agent.policy.decide import Allow, Ask, Decision, Rules, Situation, decide
from elwood.agent.policy.settings import PolicySettings, is_about
from elwood.features.shell.rules import rule
from elwood.features.shell.tools import ID, NAME
from elwood.foundation.command_line import OK
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.settings import Config, Paths


def explain(config: Config, given: Namespace) -> int:
    """Print what would be done with the command, for the owner and once strangers are read."""
    policy, workspace = config.of(PolicySettings), str(config.of(Paths).workspace)
    confined = config.of(SandboxSettings).kind != "direct"
    found = rule(given.text, policy, workspace, confined=confined)
    word = policy.word(NAME, ID)
    rules = Rules(tools={} if word is None else {NAME: word})
    told, read = (
        decide(NAME, found.action, Situation(label=label, principal="owner"), rules)
        for label in (Label(), Label(untrusted=True))
    )
    setting, line = found.setting, found.line
    if word is not None and told.why.endswith(f" {NAME}"):
        setting = f"policy.{word}"
        line = next(one for said, one in policy.words() if said == word and is_about(one, NAME, ID))
    by = "Elwood's own lists: no line of yours is about it."
    if setting:
        by = f"{setting}: {line}{_place(config.file, setting.partition('.')[2], line)}"
    print(f"{given.text}\n  {_told(told)}\n  Decided by {by}")
    if _told(read) != _told(told):
        print(f"Once the conversation has read strangers' words:\n  {_told(read)}")
    return OK


def _told(decision: Decision) -> str:
    match decision:
        case Allow(why):
            return f"It runs at once: {why or 'it only looks'}."
        case Ask(why, remember):
            always = "you can allow it for good" if remember else "each time"
            return f"You are asked ({always}): {why}."
    return f"It is never run: {decision.why}."


def _place(file: Path, key: str, line: str) -> str:
    """Say where *file* has the line; what a variable of the environment says is not in it."""
    lines = file.read_text().splitlines()
    at = next((n for n, text in enumerate(lines) if re.match(rf"\s*([\w.]*\.)?{key}\s*=", text)), 0)
    quoted = (f"'{line}'", json.dumps(line))
    found = (n for n in range(at, len(lines)) if any(one in lines[n] for one in quoted))
    number = next(found, None)
    return "" if number is None else f" ({file}, line {number + 1})"
