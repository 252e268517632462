"""Runs slash commands concurrently with the session's other work."""

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import get_args

import attrs
import msgspec
import trio

from elwood import __version__
from elwood.agent.approvals.messages import (
    DecideRequest,
    ListApprovals,
    RevokePermission,
    ShowDetails,
)
from elwood.agent.approvals.prompt_text import answer_of
from elwood.agent.channels.messages import Attachment, PostResult, Sent, Typing, Unsure
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.conversation.message import Completion, Human, Notice
from elwood.agent.conversation.route import Route
from elwood.agent.models.ledger import Spent, day_of
from elwood.agent.models.messages import Complete, Spending, ask_model
from elwood.agent.models.settings import Limits, ModelSettings
from elwood.agent.models.spending import in_list, in_words
from elwood.agent.people.messages import ListPeople
from elwood.agent.session.commands import people
from elwood.agent.session.commands.branching import Branching
from elwood.agent.session.commands.model_choice import choose
from elwood.agent.session.commands.slash import SlashCommands, help_text
from elwood.agent.session.core import Core
from elwood.agent.session.delivery import MUCH, Delivery
from elwood.agent.session.extension import (
    AnsweredByTurn,
    CommandAnswer,
    CommandCall,
    SessionExtension,
    SlashCommand,
    StatusLine,
)
from elwood.agent.session.log.branch import describe_branches as branches
from elwood.agent.session.log.entries import ModelChosen, Received, Replied, Retried
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import command_name, describe_open_work
from elwood.agent.session.log.turns import Turn
from elwood.agent.session.paging import page, parse_page
from elwood.agent.session.reading.export import Format, export_conversation
from elwood.agent.session.reading.records import History
from elwood.agent.session.reading.render import list_receipts as receipts
from elwood.agent.session.reading.render import show_receipt, tool_listing
from elwood.agent.session.reading.tree import answer_tree
from elwood.agent.session.rights import ANYBODY, OWNER, refusal
from elwood.agent.session.turn.prompt import format_words, render
from elwood.agent.session.turn.runner import TurnRunner
from elwood.agent.session.turn.unsupported_claims import with_receipts
from elwood.agent.tools.talk import MAX_BYTES, Messenger
from elwood.agent.tools.tool import Tool
from elwood.foundation.environment import memory_of
from elwood.foundation.log import bind
from elwood.foundation.runtime import ActorUnavailable, Reply, Request
from elwood.foundation.storage.journal import HistoryGone
from elwood.foundation.text.lines import duration, in_quotes, literal, shorten, size_text
from elwood.foundation.text.markdown import Rich

# Seconds for approvals to act on a command, and for sending a file.
APPROVALS_LIMIT, SEND_LIMIT = 10.0, 60.0
# Seconds to wait for the costs: as part of an answer, and alone; maximum stuck items listed.
PATIENCE, BUDGET_LIMIT, MAX_STUCK = 0.5, 5.0, 5
# Conversations per page.
PAGE = 8
# Seconds before a command shows that it works, and between two such signs: Telegram's lasts five.
SILENT, TYPING_EVERY = 0.5, 4.0
# Seconds for the answer to a side question, characters of the question shown above the answer, and
# the notice for the model.
BESIDE_LIMIT, ASKED = 120.0, 60
BESIDE = (
    "The person asks a side question{}. Answer only this question, briefly and in words. You "
    "cannot use tools, and neither the question nor the answer will stay in the conversation."
)
GOES_ON = ", while your work continues, even if it is marked as interrupted: {}"

GONE = "That is so old that I have deleted it."


@attrs.define(eq=False)
class Commands:
    _core: Core
    _messenger: Messenger
    _log: SessionLog
    _delivery: Delivery
    _runner: TurnRunner
    _known: SlashCommands
    _status: Sequence[StatusLine]
    _extensions: Sequence[SessionExtension]
    _tools: Mapping[str, Tool]
    # The running side question.
    _beside: trio.CancelScope | None = attrs.field(default=None, init=False)
    branching: Branching = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        cancel, ask = self._runner.approvals.cancel_pending, self._core.models.ask
        self.branching = Branching(self._log, cancel, self._extensions, ask)

    async def resume(self, nursery: trio.Nursery, left: Sequence[Received]) -> None:
        """Run interrupted commands, one after another; turns continue in *nursery*."""
        for received in left:
            with bind(message=received.id):
                command = self._find(received)
                if command is not None and command.handling == "long":
                    nursery.start_soon(self.carry_out, nursery, received, True)
                    continue
                await self.carry_out(nursery, received, again=True)

    async def resume_stops(
        self,
        nursery: trio.Nursery,
        stops: Sequence[Received],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the stops that a crash interrupted; no turn begins or continues before their end.

        Reports that it has started once it holds the turns: approvals may be away for long.
        """
        with self._runner.hold():
            task_status.started()
            for received in stops:
                with bind(message=received.id):
                    await self.carry_out(nursery, received, again=True)

    async def carry_out(
        self, nursery: trio.Nursery, received: Received, again: bool = False
    ) -> None:
        """Run a command; *again* if it may have been run before."""
        if why := self.refusal(received):  # an older version asked so late
            await self._accept(received, CommandAnswer(why), nursery)
            return
        command, given = self._find(received), " ".join(received.text.split()[1:])
        call = BuiltInCall(
            session=self._log.id, given=given, received=received, again=again, here=self
        )
        async with trio.open_nursery() as beside:
            beside.start_soon(self._show_typing, received.route)
            async with (
                self._runner.at_rest(nursery, stops=command.handling == "move")
                if command is not None and command.moves
                else nullcontext()
            ):
                if received.id in self._log.state.waiting:  # a stop may have answered it
                    try:
                        answer = await (self._expand if command is None else command.run)(call)
                    except HistoryGone:
                        answer = CommandAnswer(GONE)
                    await self._accept(received, answer, nursery)
            beside.cancel_scope.cancel()

    async def _show_typing(self, route: Route) -> None:
        """Show that a command is running, if that takes long."""
        outbox = self._core.channels.outboxes.get(route.channel)
        await trio.sleep(SILENT)
        while outbox is not None:
            outbox.offer(Typing(route=route))
            await trio.sleep(TYPING_EVERY)

    def _find(self, received: Received) -> SlashCommand | None:
        return self._known.find(command_name(received))

    def interrupts(self, received: Received) -> bool:
        """Return True if a command stops the running turn, to move the conversation."""
        command = self._find(received)
        return command is not None and command.handling == "move"

    def refusal(self, received: Received) -> str:
        """Return why the sender may not use a command; "" if they may."""
        command = self._find(received)
        # The name of a skill is a way to talk.
        right = ANYBODY if command is None else command.right
        name = command_name(received) if command is None else command.name
        return refusal(name, right, received.role, private=received.route.private)

    async def _accept(
        self, received: Received, answer: CommandAnswer | AnsweredByTurn, nursery: trio.Nursery
    ) -> None:
        """Record *answer* with its entries as one, unless a stop has answered the command."""
        if received.id not in self._log.state.waiting:
            return
        if isinstance(answer, AnsweredByTurn):
            if answer.entries:
                await self._log.keep(*answer.entries)
                self._runner.notify_arrival()
                self._runner.work(nursery)
            return
        replied = Replied(
            received.id,
            None,
            (received.id,),
            received.route,
            answer.text,
            answer.footer,
            buttons=answer.buttons,
            pages=answer.pages,
        )
        await self._delivery.accept(replied, *answer.entries)

    async def _expand(self, call: CommandCall) -> CommandAnswer | AnsweredByTurn:
        """Let a turn answer an unknown command, if a feature knows it."""
        for extension in self._extensions:
            if asked := await extension.expand(call.received.text):
                return _replace_command(
                    call.received, [msgspec.structs.replace(call.received, text=asked)]
                )
        return CommandAnswer(help_text(self._known.all, command_name(call.received)))

    # --- the running work ---

    async def stop(self, call: CommandCall) -> CommandAnswer | AnsweredByTurn:
        if (beside := self._beside) is not None:
            beside.cancel()
        stopped, gone = await self._runner.halt(call.received)
        if stopped:
            return AnsweredByTurn()
        what = "Nothing" if beside is None else "Nothing else"
        return CommandAnswer(f"{what} is running. {_describe_cancelled(gone)}".rstrip())

    async def answer(self, call: CommandCall) -> CommandAnswer | AnsweredByTurn:
        """Answer messages that a stop left unanswered."""
        waited = self._log.state.set_aside.get(call.given, ())
        own = [one for one in waited if one.principal == call.received.principal]
        if not own:
            return CommandAnswer("I no longer have that message. Please write it again.")
        return _replace_command(call.received, own)

    async def sessions(self, call: CommandCall) -> CommandAnswer:
        state, now = self._log.state, self._core.clock.now()
        lines, (_, number) = branches(state.tree, state, now), parse_page(call.given)
        shown, pages = page(list(lines), number, PAGE, "/sessions")
        text = "These are the conversations of this chat. /resume NUMBER goes back to one:"
        buttons = tuple(f"/resume {one}" for one in shown if one != state.tree.line)
        return CommandAnswer(text, "\n".join(lines[one] for one in shown), buttons, pages)

    async def tree(self, call: CommandCall) -> CommandAnswer:
        history, zone = await self._history(), self._core.clock.zone
        return answer_tree(history, call.given, zone, self._log.state.title, self._core.redactor)

    async def help(self, call: CommandCall) -> CommandAnswer:
        # Telegram's /start can have the parameter of a link.
        given = "" if command_name(call.received) == "start" else call.given
        return CommandAnswer(help_text(self._known.all, given))

    async def ask_beside(self, call: CommandCall) -> CommandAnswer:
        """Answer a side question from a copy of the conversation as it is now."""
        core, state, question, received = self._core, self._log.state, call.given, call.received
        if not question:
            return CommandAnswer("Write your question after the command: /btw how far are you?")
        if self._beside is not None:
            return CommandAnswer(
                "I am still answering your last side question. Ask again after that."
            )
        turn, goes_on = state.turn, ""
        if turn is not None:
            goes_on = GOES_ON.format(turn.running or turn.asking or turn.under_way)
        asked = render([msgspec.structs.replace(received, text=question)], core.clock)
        said = "I have no answer to that: it took too long or was stopped."
        with trio.move_on_after(BESIDE_LIMIT) as self._beside:
            request = Complete(
                session=self._log.account,
                role=state.model or "default",
                prompt=state.prompt
                or await self._runner.prompt.get_prompt(self._core.channels.group(self._log.id)),
                messages=(*state.messages, Notice(BESIDE.format(goes_on)), Human(asked)),
            )
            deadline = trio.current_effective_deadline()
            completed = await ask_model(core.models.ask, request, deadline)
            if isinstance(completed, Completion):
                # Calls of the model are not run.
                said = completed.message.text.strip() or "I cannot answer that without my tools."
            else:
                said = f"I cannot answer that now: {completed.why}"
        self._beside = None
        text = f"{in_quotes(shorten(question, ASKED))}\n\n{core.redactor(shorten(said, MUCH))}"
        turn, deeds = Turn("", [received], 0), self._runner.get_deeds
        return CommandAnswer(*with_receipts(text, turn, deeds, state.receipts))

    # --- permissions ---

    async def people(self, call: CommandCall) -> CommandAnswer:
        approvals, zone = self._core.approvals, self._core.clock.zone
        with trio.move_on_after(APPROVALS_LIMIT):
            known = await approvals.insist(ListPeople)
            asked = people.answer_people(known, call.given, call.received.principal, zone)
            if isinstance(asked, CommandAnswer):
                return asked
            done = await approvals.insist(lambda: msgspec.structs.replace(asked, reply=Reply()))
            return CommandAnswer(literal(done.text))
        return CommandAnswer("I cannot reach the list of people now. Try again in a minute.")

    async def _history(self) -> History:
        return await self._log.look_since(0, lambda _, log: History(self._log.id, log))

    async def approve(self, call: CommandCall) -> CommandAnswer:
        """Send a decision to approvals, in the name of the sender."""
        received, name = call.received, command_name(call.received)
        asked = _approval_request(name, call.given, received.principal, received.route)
        if asked is None:
            told = help_text(self._known.all, name)
            return CommandAnswer(f"I do not understand that. {told}")
        with trio.move_on_after(APPROVALS_LIMIT):
            settled = await self._core.approvals.insist(
                lambda: msgspec.structs.replace(asked, reply=Reply())
            )
            return CommandAnswer(literal(settled.text))
        return CommandAnswer("I cannot reach the approvals now. Try again in a minute.")

    # --- status, records, and costs ---

    async def receipts(self, call: CommandCall) -> CommandAnswer:
        wanted, zone = call.given.removeprefix("#"), self._core.clock.zone
        if not (wanted.isascii() and wanted.isdigit()):
            return receipts((await self._history()).calls, wanted, zone)
        role, private = call.received.role, call.received.route.private
        if why := refusal("receipts NUMBER", OWNER, role, private=private):
            return CommandAnswer(why)
        return await self._log.look_since(
            0, lambda _, log: show_receipt(log, int(wanted[:9]), zone, self._core.redactor)
        )

    async def tools(self, call: CommandCall) -> CommandAnswer:
        zone = self._core.clock.zone
        return await self._log.look_since(
            0, lambda _, log: tool_listing(self._tools, call.given, log, zone)
        )

    async def model(self, call: CommandCall) -> CommandAnswer:
        clock, present = self._core.clock, self._log.state.model
        today = day_of(clock.now(), str(clock.zone))
        model, answer = choose(self._core.config, present, call.given, today)
        entries = (ModelChosen(model),) if model != present else ()
        return msgspec.structs.replace(answer, entries=entries)

    async def status(self, call: CommandCall) -> CommandAnswer:
        """Describe this conversation and Elwood; for the owner, also costs and stuck work.

        Stuck work may name other conversations and files.
        """
        core, state = self._core, self._log.state
        owner = call.received.route.private and not call.received.untrusted
        turn = state.turn
        lines = [f"I am {turn.under_way}." if turn else "Nothing is running here."]
        lines += [f"{one.capitalize()}." for one in describe_open_work(state)]
        model = state.model or core.config.get(ModelSettings).role("default").model
        up = duration(core.clock.now() - core.started)
        lines.append(f"Elwood {__version__}, running for {up}, with the model {model}.")
        lines.append(f"Turns in this chat: {state.turns:,}; calls: {state.calls:,}.")
        if owner:
            spent = await self._spent(PATIENCE)
            limits = core.config.get(Limits)
            cost = in_words(spent, limits) if spent else "I cannot reach the costs now."
            lines.append(cost)
            if memory := memory_of(os.getpid()):
                lines.append(f"I use {size_text(memory)} of memory.")
            lines += [core.redactor(line) for one in self._status if (line := await one())]
            lines += [core.redactor(one.told) for one in core.table.stuck()[:MAX_STUCK]]
        return CommandAnswer("\n".join(lines))

    async def budget(self, call: CommandCall) -> CommandAnswer:
        spent = await self._spent(BUDGET_LIMIT)
        if spent is None:
            return CommandAnswer("I cannot reach the costs now. Try again in a minute.")
        return CommandAnswer(in_list(spent, self._core.config.get(Limits)))

    async def _spent(self, seconds: float) -> Spent | None:
        with trio.move_on_after(seconds):
            try:
                return await self._core.models.ask(Spending(session=self._log.account))
            except ActorUnavailable:
                pass
        return None

    # --- /export ---

    async def export(self, call: CommandCall) -> CommandAnswer:
        return CommandAnswer(await self._export(call.given, call.received, call.again))

    async def _export(self, given: str, received: Received, again: bool) -> str:
        """Send the conversation as a file; *again* if it may have been sent before."""
        core, log_, wanted = self._core, self._log, given.lower() or "md"
        format_: Format | None = next((one for one in get_args(Format) if one == wanted), None)
        if format_ is None:
            return "Choose the kind of file: /export md or /export html."
        typed = f"In a terminal, use `elwood session export {log_.id}`."
        if not self._core.channels.get_by_route(received.route).files:
            return f"I cannot send files here. {typed}"
        history, zone = await self._history(), core.clock.zone
        title = log_.state.title or log_.id
        content = await core.environment.blocking(
            lambda: export_conversation(title, history, zone, format_, core.redactor)
        )
        if not content:
            return "This conversation has no messages to export yet."
        when = datetime.fromtimestamp(core.clock.now(), zone)
        file = Attachment(f"{log_.id}-{when:%Y-%m-%d-%H%M%S}.{format_}", content.encode())
        if len(file.data) > MAX_BYTES:
            return f"The conversation is too long to send. {typed}"
        sent: PostResult = Unsure(f"there was no confirmation for {SEND_LIMIT:.0f} s")
        with trio.move_on_after(SEND_LIMIT):
            async with self._messenger.uploads:
                sent = await self._messenger.post(received.route, Rich(""), (file,), repeat=again)
        if isinstance(sent, Sent):
            return "Here is the conversation as a file."
        may = "may not have" if isinstance(sent, Unsure) else "has not"
        return f"The file {may} arrived here: {sent.why}. {typed}"


class BuiltInCall(CommandCall, frozen=True, kw_only=True):
    """A call with the conversation that a built-in command works on."""

    here: Commands


def _replace_command(received: Received, meant: Sequence[Received]) -> AnsweredByTurn:
    """Replace a command with the messages *meant*, which a turn answers."""
    text, untrusted = "\n".join(map(format_words, meant)), any(one.untrusted for one in meant)
    files = tuple(file for one in meant for file in one.files)
    pending = tuple(file for one in meant for file in one.pending)
    return AnsweredByTurn((Retried(received.id, text, untrusted, files=files, pending=pending),))


def _approval_request(
    name: str, given: str, by: str, route: Route
) -> Request[CommandResult] | None:
    """Return the request of the command *name* to approvals; None if it is invalid."""
    match name, given.split():
        case "allow", [code]:
            return DecideRequest(code=code, answer="once", by=by)
        case "allow", [code, "guest"]:
            return DecideRequest(code=code, answer="once", by=by, guest=True)
        case "allow", [code, word] if (answer := answer_of(word)) and answer != "denied":
            return DecideRequest(code=code, answer=answer, by=by)
        case "deny", [code]:
            return DecideRequest(code=code, answer="denied", by=by)
        case "approvals", []:
            return ListApprovals(by=by, route=route)
        case "approvals", ["show", code]:
            return ShowDetails(code=code, by=by)
        case "approvals", ["revoke", number] if number.isascii() and number.isdigit():
            return RevokePermission(number=int(number[:9]), by=by)
    return None


def _describe_cancelled(calls: int) -> str:
    if not calls:
        return ""
    if calls == 1:
        return "I took back my question to you, so that call will not run."
    return f"I took back my {calls} questions to you, so those calls will not run."
