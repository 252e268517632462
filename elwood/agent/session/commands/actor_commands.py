"""Carries out slash commands: short work, beside whatever else the session does."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import get_args

import msgspec
import trio

from elwood import __version__
from elwood.agent.approvals.messages import ListPeople
from elwood.agent.channels.messages import Attachment, PostResult, Sent, Typing, Unsure
from elwood.agent.conversation.message import Completion, Human, Notice
from elwood.agent.conversation.route import Route
from elwood.agent.models.ledger import Spent, day_of
from elwood.agent.models.messages import Complete, Spending, ask_model
from elwood.agent.models.settings import Limits, ModelSettings
from elwood.agent.models.spending import in_list, in_words
from elwood.agent.session.commands import people
from elwood.agent.session.commands.branching import Branching
from elwood.agent.session.commands.model_choice import choose
from elwood.agent.session.commands.paging import asked_page, page
from elwood.agent.session.commands.rights import ANYBODY, OWNER, RIGHTS, refusal
from elwood.agent.session.commands.slash import TypedCommand, help_text, parse, request
from elwood.agent.session.core import Core
from elwood.agent.session.delivery import MUCH, Delivery
from elwood.agent.session.extension import CommandAnswer, CommandCall, Extensions, SessionExtension
from elwood.agent.session.log.branch import listing as branches
from elwood.agent.session.log.entries import Entry, ModelChosen, Received, Replied, Retried
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import left, moves, stops
from elwood.agent.session.log.turns import Turn
from elwood.agent.session.reading.export import Format, exported
from elwood.agent.session.reading.records import History
from elwood.agent.session.reading.render import listing as receipts
from elwood.agent.session.reading.render import opened, tool_listing
from elwood.agent.session.turn.prompt import render, spoken
from elwood.agent.session.turn.runner import TurnRunner
from elwood.agent.session.turn.unsupported_claims import with_receipts
from elwood.agent.tools.talk import MAX_BYTES, Messenger
from elwood.agent.tools.tool import Tool
from elwood.foundation.log import bind
from elwood.foundation.runtime import ActorUnavailable, Reply
from elwood.foundation.text.lines import cut, duration, in_quotes, literal
from elwood.foundation.text.markdown import Rich

# Seconds for approvals to carry a command out, and for a file to be sent.
APPROVALS_LIMIT, SEND_LIMIT = 10.0, 60.0
# Seconds to wait for what it has cost: beside other things, and alone; stuck things listed.
PATIENCE, BUDGET_LIMIT, MAX_STUCK = 0.5, 5.0, 5
# Conversations on a page.
PAGE = 8
# Seconds after which a command shows a sign of life, and between two: Telegram's lasts five.
SILENT, TYPING_EVERY = 0.5, 4.0
# Seconds for the answer to a side question, characters of it that are shown above that, and what
# the model is told.
BESIDE_LIMIT, ASKED = 120.0, 60
BESIDE = (
    "The person asks something beside the conversation{}. Answer only this, shortly and in words: "
    "no tool can be used, and neither question nor answer will stay in the conversation."
)
GOES_ON = ", while this goes on, even if it is marked as interrupted: {}"


class Commands:
    def __init__(
        self,
        core: Core,
        messenger: Messenger,
        log_: SessionLog,
        delivery: Delivery,
        runner: TurnRunner,
        shared: Extensions,
        extensions: Sequence[SessionExtension],
        tools: Mapping[str, Tool],
    ) -> None:
        self._core = core
        self._tools = tools
        self._messenger = messenger
        self._log = log_
        self._delivery = delivery
        self._runner = runner
        self._shared = shared
        self._extensions = extensions
        self._beside: trio.CancelScope | None = None  # the side question under way
        self._branching = Branching(log_, runner.approvals.let_go, extensions, core.models.ask)

    async def resume(self, nursery: trio.Nursery, left: Sequence[Received]) -> None:
        """Carry out, one after another, what a crash cut off; turns go on in *nursery*."""
        for received in left:
            with bind(message=received.id):
                if parse(received.text).name == "btw":  # long work: nothing waits for it
                    nursery.start_soon(self.carry_out, nursery, received, True)
                    continue
                await self.carry_out(nursery, received, again=True)

    async def resume_stops(
        self,
        nursery: trio.Nursery,
        stops: Sequence[Received],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Carry out the stops that a crash cut off; no turn begins, or goes on, before their end.

        It reports that it has started once it holds the turns: approvals may be away for long.
        """
        with self._runner.hold():
            task_status.started()
            for received in stops:
                with bind(message=received.id):
                    await self.carry_out(nursery, received, again=True)

    async def carry_out(
        self, nursery: trio.Nursery, received: Received, again: bool = False
    ) -> None:
        """Carry a command out; *again* if that may have been done before."""
        command = parse(received.text)
        if why := self.refusal(received):  # an older version asked so late
            await self._accept(received, CommandAnswer(why))
            return
        async with trio.open_nursery() as beside:
            beside.start_soon(self._show_typing, received.route)
            if moves(received):
                await self._move(command, received, nursery)
            elif answer := await self._answer(command, received, nursery, again):
                await self._accept(received, answer)
            beside.cancel_scope.cancel()

    async def _show_typing(self, route: Route) -> None:
        """Show that a command is being carried out, if that takes long."""
        outbox = self._core.channels.outboxes.get(route.channel)
        await trio.sleep(SILENT)
        while outbox is not None:
            outbox.offer(Typing(route=route))
            await trio.sleep(TYPING_EVERY)

    def refusal(self, received: Received) -> str:
        """Say why a command is not for who typed it; empty if it is."""
        name = parse(received.text).name
        found = self._shared.command(name)
        right = RIGHTS.get(name) or (found.right if found is not None else ANYBODY)
        return refusal(name, right, received.role, private=received.route.private)

    async def _move(self, command: TypedCommand, received: Received, nursery: trio.Nursery) -> None:
        """Move the conversation while it is at rest, in one line with the answer."""
        async with self._runner.at_rest(nursery, stops=stops(received)):
            if received.id not in self._log.state.waiting:
                return  # answered meanwhile, by a stop
            moved = await self._branching.move(command, received)
            if moved.text:
                answer = CommandAnswer(moved.text, moved.footer)
                await self._accept(received, answer, *moved.entries)
            else:
                # What answers it is the turn that it begins.
                await self._log.keep(*moved.entries)

    async def _accept(self, received: Received, answer: CommandAnswer, *entries: Entry) -> None:
        if received.id not in self._log.state.waiting:
            return  # answered meanwhile, by a stop
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
        await self._delivery.accept(replied, *entries)

    async def _answer(
        self, command: TypedCommand, received: Received, nursery: trio.Nursery, again: bool
    ) -> CommandAnswer | None:
        """Do what is asked for and say what came of it; None if a turn's reply answers it."""
        log_, shared = self._log, self._shared
        match command.name:
            case "stop":
                if (beside := self._beside) is not None:
                    beside.cancel()
                stopped, gone = await self._runner.halt(received)
                if stopped:
                    return None
                what = "Nothing" if beside is None else "Nothing else"
                return CommandAnswer(f"{what} is running. {_gone(gone)}".rstrip())
            case "btw":
                return CommandAnswer(*await self._ask_beside(command.given, received))
            case "answer":
                waited = log_.state.set_aside.get(command.given, ())
                own = [one for one in waited if one.principal == received.principal]
                if not own:
                    return CommandAnswer("I have nothing of yours there. Please write it again.")
                await self._say(received, own, nursery)
                return None
            case "sessions":
                tree, now = log_.state.tree, self._core.clock.now()
                lines, (_, number) = branches(tree, log_.state.path, now), asked_page(command.given)
                shown, pages = page(list(lines), number, PAGE, "/sessions")
                text = "The conversations of this chat; /resume NUMBER goes back to one:"
                buttons = tuple(f"/resume {one}" for one in shown if one != tree.line)
                return CommandAnswer(text, "\n".join(lines[one] for one in shown), buttons, pages)
            case "export":
                return CommandAnswer(await self._export(command.given, received, again))
            case "status":
                is_own = received.route.private and not received.untrusted
                return CommandAnswer(await self._status(owner=is_own))
            case "budget":
                return CommandAnswer(await self._budget())
            case "receipts":
                wanted, zone = command.given.removeprefix("#"), self._core.clock.zone
                if not (wanted.isascii() and wanted.isdigit()):
                    return receipts((await self._history()).calls, wanted, zone)
                role, private = received.role, received.route.private
                if why := refusal("receipts NUMBER", OWNER, role, private=private):
                    return CommandAnswer(why)
                return await log_.look_since(
                    0, lambda _, log: opened(log, int(wanted[:9]), zone, self._core.redactor)
                )
            case "tools":
                text = await log_.look_since(
                    0, lambda _, log: tool_listing(self._tools, command.given, log)
                )
                return CommandAnswer(text)
            case "model":
                clock = self._core.clock
                today = day_of(clock.now(), str(clock.zone))
                present, config = log_.state.model, self._core.config
                model, answer = choose(config, present, command.given, today)
                if model != log_.state.model:
                    await log_.keep(ModelChosen(model))
                return answer
            case "help":
                return CommandAnswer(help_text(shared.commands, command.given))
            case "people":
                return await self._people(command, received)
            case "allow" | "deny" | "approvals":
                return CommandAnswer(await self._approve(command, received))
        if (found := shared.command(command.name)) is not None:
            return await found.run(
                CommandCall(session=log_.id, given=command.given, received=received, again=again)
            )
        for extension in self._extensions:
            if asked := await extension.expand(received.text):
                meant = msgspec.structs.replace(received, text=asked)
                await self._say(received, [meant], nursery)
                return None
        return CommandAnswer(help_text(shared.commands, command.name))

    async def _say(
        self, received: Received, meant: Sequence[Received], nursery: trio.Nursery
    ) -> None:
        """Let a command stand for what is *meant* by it, which a turn answers."""
        text, untrusted = "\n".join(map(spoken, meant)), any(one.untrusted for one in meant)
        files = tuple(file for one in meant for file in one.files)
        pending = tuple(file for one in meant for file in one.pending)
        await self._log.keep(Retried(received.id, text, untrusted, files=files, pending=pending))
        self._runner.arrived()
        self._runner.work(nursery)

    async def _ask_beside(self, question: str, received: Received) -> tuple[str, str]:
        """Answer a side question, with a footer, from a copy of the conversation as it is now."""
        core, state = self._core, self._log.state
        if not question:
            return "Write the question behind it: /btw how far are you?", ""
        if self._beside is not None:
            return "I am still at your last side question. Ask again when it is answered.", ""
        goes_on = GOES_ON.format(state.turn.under_way) if state.turn else ""
        asked = render([msgspec.structs.replace(received, text=question)], core.clock)
        said = "I have no answer to that: it took too long, or was stopped."
        with trio.move_on_after(BESIDE_LIMIT) as self._beside:
            request = Complete(
                session=self._log.account,
                role=state.model or "default",
                prompt=state.prompt or await self._runner.prompt.now(self._log.id),
                messages=(*state.messages, Notice(BESIDE.format(goes_on)), Human(asked)),
            )
            deadline = trio.current_effective_deadline()
            completed = await ask_model(core.models.ask, request, deadline)
            if isinstance(completed, Completion):
                # Calls that the model wants all the same are not run.
                said = completed.message.text.strip() or "I cannot answer that without my tools."
            else:
                said = f"I cannot answer that now: {completed.why}"
        self._beside = None
        text = f"{in_quotes(cut(question, ASKED))}\n\n{core.redactor(cut(said, MUCH))}"
        return with_receipts(text, Turn("", [received], 0))

    async def _people(self, command: TypedCommand, received: Received) -> CommandAnswer:
        approvals, zone = self._core.approvals, self._core.clock.zone
        with trio.move_on_after(APPROVALS_LIMIT):
            known = await approvals.insist(ListPeople)
            asked = people.answer(known, command.given, received.principal, zone)
            if isinstance(asked, CommandAnswer):
                return asked
            done = await approvals.insist(lambda: msgspec.structs.replace(asked, reply=Reply()))
            return CommandAnswer(literal(done.text))
        return CommandAnswer("I cannot look at that now. Try again in a minute.")

    async def _history(self) -> History:
        return await self._log.look_since(0, lambda _, log: History(self._log.id, log))

    async def _approve(self, command: TypedCommand, received: Received) -> str:
        """Have a decision carried out, in the name of whoever typed it."""
        asked = request(command, received.principal, received.route)
        if asked is None:
            return f"I do not understand that. {help_text((), command.name)}"
        settled = None
        with trio.move_on_after(APPROVALS_LIMIT):
            settled = await self._core.approvals.insist(
                lambda: msgspec.structs.replace(asked, reply=Reply())
            )
        if settled is None:
            return "Nobody decides about calls now. Try again in a minute."
        return literal(settled.text)

    # --- how it goes, and what it costs ---

    async def _status(self, *, owner: bool) -> str:
        """Say how this conversation does, and Elwood; what it costs and what is stuck to the owner.

        What is stuck names other conversations and files.
        """
        core, state = self._core, self._log.state
        turn = state.turn
        lines = [f"Working on {turn.under_way}." if turn else "Nothing is running here."]
        lines += [f"{one.capitalize()}." for one in left(state)]
        model = state.model or core.config.of(ModelSettings).role("default").model
        up = duration(core.clock.now() - core.started)
        lines.append(f"Elwood {__version__}, up for {up}, thinking with {model}.")
        if owner:
            spent = await self._spent(PATIENCE)
            limits = core.config.of(Limits)
            cost = in_words(spent, limits) if spent else "What it has cost cannot be said now."
            lines.append(cost)
            lines += [core.redactor(line()) for line in self._shared.status]
            lines += [core.redactor(one.told) for one in core.table.stuck()[:MAX_STUCK]]
        return "\n".join(lines)

    async def _budget(self) -> str:
        spent = await self._spent(BUDGET_LIMIT)
        if spent is None:
            return "What it has cost cannot be said now. Try again in a minute."
        return in_list(spent, self._core.config.of(Limits))

    async def _spent(self, seconds: float) -> Spent | None:
        with trio.move_on_after(seconds):
            try:
                return await self._core.models.ask(Spending(session=self._log.account))
            except ActorUnavailable:
                pass
        return None

    # --- /export ---

    async def _export(self, given: str, received: Received, again: bool) -> str:
        """Send the conversation as a file; *again* marks it as sent before, perhaps."""
        core, log_, wanted = self._core, self._log, given.lower() or "md"
        format_: Format | None = next((one for one in get_args(Format) if one == wanted), None)
        if format_ is None:
            return "Say which kind of file: /export md or /export html"
        typed = f"In a terminal, `elwood session export {log_.id}` writes it."
        if not self._core.channels.takes_files(received.route):
            return f"No file can be sent here. {typed}"
        history, zone = await self._history(), core.clock.zone
        content = await core.environment.blocking(
            lambda: exported(log_.id, history, zone, format_, core.redactor)
        )
        if not content:
            return "Nothing was said here yet that could be exported."
        when = datetime.fromtimestamp(core.clock.now(), zone)
        file = Attachment(f"{log_.id}-{when:%Y-%m-%d-%H%M%S}.{format_}", content.encode())
        if len(file.data) > MAX_BYTES:
            return f"The conversation is too long to be sent. {typed}"
        sent: PostResult = Unsure(f"nothing was heard of it for {SEND_LIMIT:.0f} s")
        with trio.move_on_after(SEND_LIMIT):
            async with self._messenger.uploads:
                sent = await self._messenger.post(received.route, Rich(""), (file,), repeat=again)
        if isinstance(sent, Sent):
            return "Here is the conversation, as a file."
        may = "may not have" if isinstance(sent, Unsure) else "has not"
        return f"The file {may} arrived here: {sent.why}. {typed}"


def _gone(calls: int) -> str:
    if not calls:
        return ""
    what = "The call that waited" if calls == 1 else f"The {calls} calls that waited"
    return f"{what} for your approval will not run."
