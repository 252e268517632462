"""Temporary: replaced by the branch policy."""

from collections.abc import Mapping
from typing import Literal

import attrs

from elwood.core.actions import Action, Other, RunCommand
from elwood.core.labels import Label

Who = Literal["owner", "guest", "task"]


@attrs.frozen
class Allow:
    why: str = ""


@attrs.frozen
class Ask:
    why: str
    remember: bool


@attrs.frozen
class Deny:
    why: str


Decision = Allow | Ask | Deny


@attrs.frozen(kw_only=True)
class Situation:
    label: Label
    principal: Who
    origins: tuple[str, ...] = ()
    named_before: frozenset[str] = frozenset()
    named_now: frozenset[str] = frozenset()


@attrs.frozen(kw_only=True)
class Rules:
    tools: Mapping[str, Literal["allow", "ask", "deny"]] = attrs.field(factory=dict)


def decide(tool: str, action: Action, situation: Situation, rules: Rules) -> Decision:
    if isinstance(action, RunCommand):
        return Deny(action.why)
    if isinstance(action, Other) and action.risk != "read" and rules.tools.get(tool) != "allow":
        return Ask("it changes something", not situation.label.untrusted)
    return Allow()
