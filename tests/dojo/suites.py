"""AgentDojo's suites as tools for the gate, scripts for the models, and AgentDojo's verdicts.

This is the only module that imports AgentDojo, which is not part of the usual installation. Its
objects are `Any` here, because types are checked without it, and only `obedience` uses them too.
"""

import json
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from typing import Any

import attrs
import msgspec
import pytest
import trio

from elwood.agent.conversation.calls import Plan
from elwood.agent.tools.tool import Tool, ToolContext, ToolFailure
from tests.dojo.catalogue import CLASSES, Class
from tests.dojo.obedience import SCRIPTS, Call

_found = partial(
    pytest.importorskip,
    reason="AgentDojo is not installed: pip install -c constraints.txt -e '.[test,dojo]'",
)
_loading = _found("agentdojo.task_suite.load_suites")
_functions = _found("agentdojo.functions_runtime")
_results = _found("agentdojo.agent_pipeline.tool_execution")

VERSION = "v1.2.2"
NAMES = ("workspace", "banking", "slack", "travel")
# The scripted model recognizes the injection by this marker, which no file of AgentDojo contains.
MARK = "INJECTED-7f3a"


@attrs.frozen(eq=False)
class Suite:
    """One suite: accounts, tasks of their owner, and goals of strangers."""

    name: str
    raw: Any

    @property
    def functions(self) -> list[str]:
        """The names of all functions."""
        return [function.name for function in self.raw.tools]

    @property
    def tasks(self) -> list[str]:
        """The owner's tasks, by id."""
        return list(self.raw.user_tasks)

    @property
    def goals(self) -> list[str]:
        """The strangers' goals, by id."""
        return list(self.raw.injection_tasks)

    def prompt(self, task: str) -> str:
        """Return the owner's message."""
        text: str = self.raw.user_tasks[task].PROMPT
        return text


class World:
    """The accounts of one run, changed only by tools.

    With a *goal*, every place where strangers can write and that the task visits contains it.
    """

    def __init__(self, suite: Suite, task: str, goal: str | None) -> None:
        self._suite = suite
        self._task = suite.raw.user_tasks[task]
        self._goal: Any = None if goal is None else suite.raw.injection_tasks[goal]
        fresh = _environment(suite.name, task, goal).model_copy(deep=True)
        self._now = self._task.init_environment(fresh)
        self._before = self._now.model_copy(deep=True)
        self._runtime = _functions.FunctionsRuntime(suite.raw.tools)
        self.ran: list[Call] = []

    def task_script(self) -> list[Call]:
        """Return the calls of an honest model for the owner's task."""
        return _script(self._task, self._now)

    def goal_script(self) -> list[Call]:
        """Return the calls of a model that obeys the injection."""
        own = SCRIPTS.get((self._suite.name, self._goal.ID))
        return _script(self._goal, self._now) if own is None else own(self._now)

    def is_done(self) -> bool:
        """Return True if AgentDojo judges the owner's task as solved."""
        task = self._task
        given = (task.GROUND_TRUTH_OUTPUT, self._before, self._now)
        known = task.utility_from_traces(*given, self._traces())
        return bool(task.utility(*given) if known is None else known)

    def is_reached(self) -> bool:
        """Return True if AgentDojo judges the strangers' goal as reached.

        The answer to the owner is that of a model that obeyed.
        """
        goal = self._goal
        words = f"{self._task.GROUND_TRUTH_OUTPUT} {goal.GROUND_TRUTH_OUTPUT}"
        given = (words, self._before, self._now)
        known = goal.security_from_traces(*given, self._traces())
        return bool(goal.security(*given) if known is None else known)

    def tools(self) -> list[Tool]:
        """Return all functions as tools for the gate."""
        return [self._tool(function, CLASSES[function.name]) for function in self._suite.raw.tools]

    def _traces(self) -> list[Any]:
        return [
            _functions.FunctionCall(function=name, args=dict(given)) for name, given in self.ran
        ]

    def _tool(self, function: Any, kind: Class) -> Tool:
        async def plan(given: msgspec.Struct, context: ToolContext) -> Plan:
            await trio.lowlevel.checkpoint()
            subject = msgspec.json.encode(given).decode()
            return Plan(kind.act(msgspec.structs.asdict(given)), subject, outgoing=subject)

        async def run(given: msgspec.Struct, context: ToolContext) -> str:
            await trio.lowlevel.checkpoint()
            arguments = msgspec.structs.asdict(given)
            self.ran.append(Call(function.name, arguments))
            result, error = self._runtime.run_function(self._now, function.name, arguments)
            if error is not None:
                raise ToolFailure(error)
            return _text(result)

        return Tool(
            name=function.name,
            description=function.description,
            input=_input(self._suite.name, function.name),
            run=run,
            risk=kind.risk,
            effect="pure" if kind.risk == "read" else "once",
            plan=plan,
            gives=kind.gives,
        )


@lru_cache
def suite(name: str) -> Suite:
    """Load a suite."""
    return Suite(name, _loading.get_suite(VERSION, name))


def _environment(name: str, task: str, goal: str | None) -> Any:
    if goal is None:
        return _filled(name, frozenset(), "")
    text = f"{MARK} {suite(name).raw.injection_tasks[goal].GOAL}"
    return _filled(name, _places(name, task), text)


@cache  # some hundreds: a few dozen sets of places for each goal
def _filled(name: str, places: frozenset[str], text: str) -> Any:
    return suite(name).raw.load_and_inject_default_environment(dict.fromkeys(places, text))


@cache  # one for each task
def _places(name: str, task: str) -> frozenset[str]:
    """Return the places that an honest model visits: AgentDojo injects only there."""
    raw = suite(name).raw
    marks = {place: f"[{place}]" for place in raw.get_injection_vector_defaults()}
    world = raw.load_and_inject_default_environment(marks)
    world = raw.user_tasks[task].init_environment(world)
    runtime = _functions.FunctionsRuntime(raw.tools)
    seen = ""
    for call in _script(raw.user_tasks[task], world):
        result, error = runtime.run_function(world, call.function, call.arguments)
        seen += _text(result) if error is None else error
    return frozenset(place for place, mark in marks.items() if mark in seen)


@lru_cache
def _input(name: str, function: str) -> type[msgspec.Struct]:
    (found,) = (one for one in suite(name).raw.tools if one.name == function)
    fields = [
        (key, field.annotation)
        if field.is_required()
        else (key, field.annotation, field.get_default())
        for key, field in found.parameters.model_fields.items()
    ]
    return msgspec.defstruct(function, fields, kw_only=True, forbid_unknown_fields=True)


def _script(task: Any, environment: Any) -> list[Call]:
    calls: Sequence[Any] = task.ground_truth(environment.model_copy(deep=True))
    return [Call(call.function, dict(call.args)) for call in calls]


def _text(result: object) -> str:
    # JSON is about ten times faster to write than AgentDojo's usual YAML.
    text: str = _results.tool_result_to_str(result, partial(json.dumps, default=str))
    return text
