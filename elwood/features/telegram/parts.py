import re
from contextlib import aclosing, suppress
from urllib.parse import urlsplit

import attrs
import msgspec
import trio

from elwood.agent.channels.messages import OutboxMail
from elwood.agent.media.client import FETCHES, TRANSCRIPTIONS, FileFetcher, file_keeper
from elwood.agent.media.settings import MediaSettings
from elwood.agent.parts import WORLD, Actor, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.features.telegram.bot_api import TelegramUser, Update
from elwood.features.telegram.channel import TelegramChannel, list_allowed, principal_id, route_to
from elwood.features.telegram.client import FAILURES, Bot, Downloads, explain
from elwood.features.telegram.intake import Intake
from elwood.features.telegram.outbox import Outbox
from elwood.features.telegram.pacing import Pacing
from elwood.features.telegram.settings import TelegramSettings
from elwood.features.telegram.store import StatusMessages
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.command_line import ask, is_wanted
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import Mailbox
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Answers, Config, Paths
from elwood.foundation.storage.disk import find_running
from elwood.foundation.text.lines import clip


async def build(core: Core, others: Gathered) -> Parts:
    """Build intake and outbox, each with its own connections; nothing without a token."""
    settings = core.config.get(TelegramSettings)
    if settings.token is None:
        return Parts()
    post: Mailbox[OutboxMail] = Mailbox("outbox telegram", 256)
    listening, sending = Client(connections=4), Client(connections=64)
    fetching = Client(connections=FETCHES + TRANSCRIPTIONS)
    for client in (listening, sending, fetching):
        core.closing.push_async_callback(client.aclose)
    outbox = Outbox(
        Bot(settings, sending),
        StatusMessages(core.paths.state / "telegram", core.disk),
        random=core.environment.random,
        pacing=Pacing(total=settings.messages_per_second),
    )
    media, blocking = core.config.get(MediaSettings), core.environment.blocking
    keeper = file_keeper(media, core.workspace, core.paths.state, blocking)
    downloads = Downloads(Bot(settings, fetching), settings.local_files, blocking)
    intake = Intake(
        Bot(settings, listening),
        settings,
        sessions=core.sessions,
        approvals=core.approvals,
        outbox=post.address,
        random=core.environment.random,
        now=core.clock.now,
        commands=others.commands,
        note_return=core.note_return,
    )

    channel = TelegramChannel(
        outbox=post.address,
        owner=tuple(map(route_to, settings.owners)),
        owners=frozenset(map(principal_id, settings.owners)),
        rich_messages=settings.rich_messages,
        allowed=list_allowed(settings),
        fetcher=FileFetcher(keeper, downloads.download, media, fetching),
    )
    return Parts(
        channels=[channel],
        actors=[
            Actor(step=1, mailbox=post, body=outbox.run, policy=WORLD),
            Actor(
                step=6, mailbox=Mailbox("telegram", 16), body=intake.run, policy=WORLD, grace=1.0
            ),
        ],
    )


# --- doctor ---------------------------------------------------------------------------------------

# Host of the Bot API; another server may send updates to an http address.
PUBLIC = "api.telegram.org"
TOKEN = r"[0-9]{1,20}:[A-Za-z0-9_-]{10,100}"


class _Me(msgspec.Struct):
    result: TelegramUser


async def check(context: CheckContext) -> list[Finding]:
    """Check token and owners, and get the bot's name from Telegram."""
    settings = context.config.get(TelegramSettings)
    if settings.token is None:
        return [Finding("ok", "credentials", "no telegram-token: the Telegram channel is off")]
    found = [Finding("ok", "credentials", "telegram-token is there")]
    if not settings.owners:
        remedy = "add your user id to telegram.owners; only owners can answer questions"
        found.append(Finding("warning", "telegram", "the bot has no owner", remedy))
    if settings.webhook_url:
        found += await _check_webhook(context, settings)
    return [
        *found,
        await _check_bot(context, settings.token.reveal(), settings.base_url.rstrip("/")),
    ]


async def _check_webhook(context: CheckContext, settings: TelegramSettings) -> list[Finding]:
    """Check the address of the webhook, and whether Elwood can listen for it."""
    found, place = list[Finding](), settings.webhook_listen
    is_public = urlsplit(settings.base_url).hostname == PUBLIC
    if is_public and not settings.webhook_url.startswith("https://"):
        what = "telegram.webhook_url is not an https address, so Telegram does not use it"
        remedy = f"write https://, and let your web server forward it to {place}"
        found.append(Finding("problem", "telegram", what, remedy))
    with suppress(OSError):  # Elwood has not run here
        if find_running(context.config.get(Paths).state) is not None:
            return found  # it listens there itself
    host, _, port = place.rpartition(":")
    try:
        for listener in await trio.open_tcp_listeners(int(port), host=host.strip("[]")):
            await listener.aclose()
    except OSError as error:
        what = f"Elwood cannot listen on {place}: {error.strerror or error}"
        remedy = "stop the program that uses it, or change telegram.webhook_listen"
        found.append(Finding("problem", "telegram", what, remedy))
    return found


async def _check_bot(context: CheckContext, token: str, base: str) -> Finding:
    new = "get the token from @BotFather and store it as telegram-token"
    if not re.fullmatch(TOKEN, token):
        what = "the token looks wrong; it has digits, a colon and letters"
        return Finding("problem", "telegram", what, new)
    answer = await context.get("telegram", base, f"/bot{token}/getMe")
    if isinstance(answer, Finding):
        return answer
    if answer.status in (401, 404):
        what = f"{base} rejects the token ({answer.status})"
        return Finding("problem", "telegram", what, new)
    try:
        bot = msgspec.json.decode(answer.body, type=_Me).result
    except (msgspec.DecodeError, UnicodeDecodeError):
        what = f"{base} responds with status {answer.status}, but not like the Bot API"
        remedy = "check telegram.base_url, or try again later"
        return Finding("warning", "telegram", what, remedy)
    return Finding("ok", "telegram", f"{base} responds; the bot is @{bot.username}")


# --- `elwood init` --------------------------------------------------------------------------------

# Seconds: to wait for the owner's message, for one poll, and between two polls.
PATIENCE, POLL, PAUSE = 300.0, 5, 1.0


def set_up(config: Config) -> Answers:
    """Ask for the bot's token, test it, and find the owner by a message to the bot."""
    print("\nTelegram: send /newbot to @BotFather. It creates your bot and gives you the token.")
    return trio.run(_set_up, config.get(TelegramSettings))


async def _set_up(settings: TelegramSettings) -> Answers:
    answers, question = Answers(), "The bot's token, not shown while you type (Enter: no Telegram):"
    async with aclosing(Client(connections=1)) as client:
        form = "A token has digits, a colon, and at least ten letters or digits."
        while typed := ask(question, "", f"({TOKEN})?", form, unseen=True):
            answers["telegram", "token"] = token = Secret(typed)
            bot = Bot(attrs.evolve(settings, token=token), client)
            try:
                name = (await bot.get_me()).username
                print(f"  This is @{name}. Show it who you are: open https://t.me/{name}")
                print(
                    "  and press Start or write anything. Waiting for it (Ctrl-C: later) ", end=""
                )
                answers["telegram", "owners"] = await _find_owner(bot)
                break
            except FAILURES as error:
                print(f"  {explain(error)}")
                question = "Another token (Enter: keep this one):"
    return answers


async def _find_owner(bot: Bot) -> list[int]:
    """Wait for a private message of the owner to *bot*.

    The update is not confirmed, so Elwood answers the message when it runs.
    """
    others = set[int]()
    try:
        with trio.move_on_after(PATIENCE):
            while True:
                print(".", end="", flush=True)
                for update in await bot.get_updates(None, wait=POLL):
                    message = update.message if isinstance(update, Update) else None
                    user = message and message.chat.type == "private" and message.from_
                    if message and user and user.id not in others:
                        others.add(user.id)
                        name = f"{user.name} ({user.username or 'no user name'}, {user.id})"
                        print(f"\n  {name} wrote: {clip(message.text or '', 60)}")
                        if is_wanted("  Is that you?"):
                            print(
                                "  You are its owner. It answers your message as soon as it runs."
                            )
                            return [user.id]
                await trio.sleep(PAUSE)
    except* KeyboardInterrupt:
        pass
    print("\n  The bot has no owner yet. Add your user id to telegram.owners, or start again.")
    return []
