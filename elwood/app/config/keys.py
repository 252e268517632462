"""Knows what each key means to the operator, and which values make sense for it."""

import attrs

from elwood.app.config.checks import (
    Check,
    at_least,
    between,
    is_group,
    is_hours,
    is_model,
    is_moment,
    is_place,
    is_port,
    is_prompt,
    is_role,
    is_session,
    is_task_id,
    is_timezone,
    is_title,
    is_url,
    is_user,
    is_watched,
    is_when,
    is_zone,
    none_or,
)


@attrs.frozen
class Key:
    """What *path* means, in which unit.

    *check* raises Wrong.  *default* describes one that is computed; *example* is TOML for keys
    without a default worth showing.
    """

    path: str
    meaning: str
    check: Check | None = None
    default: str | None = None
    example: str | None = None


_SECRET = "`file:` and an absolute path, or the secret itself; better is the credential"
_ANTHROPIC = "for the API anthropic:"
_OPENAI = "for the API openai:"
KEYS = (
    Key("owner.name", "what Elwood calls you", example='"Ada"'),
    Key("owner.timezone", "the time zone you live in, by its IANA name", is_timezone),
    Key(
        "owner.hours", "when you may be bothered: `08:00-22:00`, `mon-fri 8-18`, `always`", is_hours
    ),
    Key(
        "paths.state",
        "folder of everything Elwood remembers",
        default="`$STATE_DIRECTORY`, else `~/.local/state/elwood`",
        example='"~/.local/state/elwood"',
    ),
    Key(
        "paths.workspace",
        "folder of the documents and files that Elwood works with",
        default="`workspace` in paths.state",
        example='"~/elwood"',
    ),
    Key(
        "paths.runtime",
        "folder of the control socket",
        default="`$RUNTIME_DIRECTORY`, else `$XDG_RUNTIME_DIR/elwood`, else `run` in paths.state",
        example='"/run/elwood"',
    ),
    Key("models.default", "the model that answers, as provider/name", is_model),
    Key("models.summarizer", "the model that shortens long conversations", is_model),
    Key(
        "models.fallbacks",
        "models to try, in this order, when the default cannot answer",
        is_model,
        example='["openai/gpt-5"]',
    ),
    Key("models.max_tokens", "most tokens of one response", at_least(1)),
    Key("providers.NAME.api", "the API it speaks; offline is a model made of rules"),
    Key("providers.NAME.base_url", "address of the API, to which paths are added", is_url),
    Key(
        "providers.NAME.key",
        f"{_SECRET} `NAME-key`",
        default="credential `NAME-key`; else `$ANTHROPIC_API_KEY`, `$OPENAI_API_KEY` for these two",
    ),
    Key("providers.NAME.in_flight", "most calls at once", between(1, 1000)),
    Key("providers.NAME.stall", "seconds of silence that end a response", between(1, 3600)),
    Key("providers.NAME.version", f"{_ANTHROPIC} the anthropic-version header"),
    Key("providers.NAME.echo_reasoning", f"{_OPENAI} the field that takes back earlier reasoning"),
    Key("providers.NAME.limit_field", f"{_OPENAI} the field that takes models.max_tokens"),
    Key("limits.session_tokens", "most tokens of one conversation", at_least(1), example="2000000"),
    Key("limits.session_usd", "most US dollars of one conversation", at_least(0), example="5.0"),
    Key("limits.day_tokens", "most tokens of one day", at_least(1), example="10000000"),
    Key("limits.day_usd", "most US dollars of one day", at_least(0), example="20.0"),
    Key("limits.month_tokens", "most tokens of one month", at_least(1), example="100000000"),
    Key("limits.month_usd", "most US dollars of one month", at_least(0), example="200.0"),
    Key("limits.job_tokens", "most tokens a day of a task that says nothing else", at_least(1)),
    Key("limits.job_usd", "most US dollars a day of a task that says nothing else", at_least(0)),
    Key(
        "limits.warn",
        "share of a limit at which you are told, once a period; 0: never, 1: when it is reached",
        between(0, 1),
    ),
    Key("heartbeat.on", "whether it is looked at"),
    Key("heartbeat.every", "seconds between two looks at the checklist", between(60, 366 * 86_400)),
    Key("heartbeat.hours", "hours in which that is done", is_hours, default="owner.hours"),
    Key("heartbeat.model", "`cheap` (models.summarizer), `default`, or provider/name", is_role),
    Key("heartbeat.tokens", "most tokens a day, of the checklist and of each entry", at_least(1)),
    Key("heartbeat.usd", "most US dollars a day, of the checklist and of each entry", at_least(0)),
    Key("tasks.title", "what it is called", is_title, default="made of what is to be done"),
    Key("tasks.id", "small letters, digits, dashes", is_task_id, default="made of the title"),
    Key("tasks.when", "when it runs", is_when, example='"0 8 * * 1"'),
    Key("tasks.start", "since when an interval is counted, as date and time", is_moment),
    Key("tasks.ends", "the date, or date and time, after which it runs no more", is_moment),
    Key("tasks.zone", "the time zone of its times", is_zone, default="owner.timezone"),
    Key("tasks.hours", "when it may run: `08:00-22:00`, `mon-fri 8-18`; else always", is_hours),
    Key("tasks.prompt", "what is to be done, for the model", is_prompt),
    Key("tasks.message", "or a text that is said as it stands, without a model", is_prompt),
    Key(
        "tasks.watch",
        "run only if one of these files of the workspace, or the prompt, has changed; folders, `*`"
        " and `**` are understood",
        is_watched,
    ),
    Key(
        "tasks.deliver",
        "where the answer goes: a channel, or channel:chat as in `telegram:-1001234567890`",
        is_place,
        default="where you were heard last",
    ),
    Key("tasks.silent", "post no answer"),
    Key("tasks.session", "the conversation it runs in", is_session, default="an empty one"),
    Key("tasks.model", "`default`, `cheap` (models.summarizer), or provider/name", is_role),
    Key("tasks.tools", "tools it may use", default="all"),
    Key("tasks.tokens", "most tokens a day", at_least(1)),
    Key("tasks.usd", "most US dollars a day", at_least(0)),
    Key(
        "tasks.catch_up",
        "seconds that it may come late, as after the machine was off",
        between(60, 366 * 86_400),
        default="12 hours; a week for a single message",
    ),
    Key("tasks.untrusted", "strangers' words may be in it; agent.toml says so of some"),
    Key("turn.max_rounds", "most model calls for one answer", between(1, 1000)),
    Key("turn.deadline", "seconds for one answer", between(1, 86_400)),
    Key("turn.model_deadline", "seconds for one model call, retries included", between(1, 86_400)),
    Key("turn.tool_deadline", "seconds for one tool call", between(1, 86_400)),
    Key("turn.max_tools", "most tools that a model is shown", between(1, 1000)),
    Key("turn.context_tokens", "most tokens of history sent to a model", at_least(1000)),
    Key("approvals.wait", "seconds that a call waits for you before the turn goes on", at_least(0)),
    Key(
        "approvals.expires",
        "seconds after which no answer means no, and a yes that was not used counts no more",
        between(60, 30 * 86_400),
    ),
    Key("approvals.standing", "seconds for which a permission for good stands", at_least(60)),
    Key("approvals.group_after", "questions after which further ones come together", at_least(1)),
    Key("approvals.group_within", "seconds within which they are counted", at_least(0)),
    Key("sessions.idle", "seconds after which a quiet conversation leaves memory", at_least(1)),
    Key("sessions.archive", "seconds after which a quiet conversation is put away", at_least(60)),
    Key(
        "memory.embeddings",
        "a model that makes vectors of notes, as provider/name; they are sent to it",
        is_model,
        example='"ollama/nomic-embed-text"',
    ),
    Key("memory.max_notes", "most notes that are kept", between(1, 1_000_000)),
    Key("memory.offered", "most tokens of notes that go along with a message", at_least(0)),
    Key(
        "learning.mode",
        "suggest asks you before anything noticed is remembered; auto remembers what was seen often"
        " enough; off calls no model",
    ),
    Key("learning.threshold", "conversations in which the same must be seen", between(1, 100)),
    Key("learning.quiet", "seconds of silence before a conversation is looked at", at_least(10)),
    Key("learning.reflections", "write reflections on what was done, each week and month"),
    Key("learning.calls_per_day", "most calls of models.summarizer for it", between(1, 1000)),
    Key(
        "telegram.token",
        f"{_SECRET} `telegram-token`. The channel is off without",
        default="credential `telegram-token`; else `$ELWOOD_TELEGRAM_TOKEN`",
        example='"file:/run/secrets/telegram-token"',
    ),
    Key("telegram.owners", "ids of the users it belongs to", is_user, example="[123456789]"),
    Key("telegram.groups", "ids of the groups it answers in", is_group, example="[-1001234567890]"),
    Key("telegram.base_url", "address of the Bot API", is_url),
    Key("telegram.messages_per_second", "most messages to all chats", between(1, 1000)),
    Key("telegram.poll", "seconds that Telegram may hold a poll open", between(0, 50)),
    Key("telegram.delete_webhook", "remove a webhook, which keeps messages from us"),
    Key("policy.allow", "tools that need no question", example='["run_command"]'),
    Key("policy.ask", "tools whose every call is asked about", example='["write_file"]'),
    Key("policy.deny", "tools that are never run", example='["web_request"]'),
    Key(
        "egress.allowed",
        "domains that may be written to unasked, in conversations without strangers' words",
        example='["api.example.org"]',
    ),
    Key("egress.always_ask", "domains that you are asked about each time"),
    Key("egress.blocked", "domains that are never talked to", example='["ads.example.com"]'),
    Key("egress.ports", "ports of web servers that may be connected to", is_port),
    Key("egress.per_minute", "most requests to one host in a minute", at_least(1)),
    Key("egress.per_minute_all", "most requests to all hosts in a minute", at_least(1)),
    Key(
        "search.searxng_url",
        "address of your SearXNG; it is asked before Brave",
        is_url,
        example='"http://127.0.0.1:8888"',
    ),
    Key(
        "search.brave_key",
        f"{_SECRET} `brave-key`",
        default="credential `brave-key`; else `$BRAVE_API_KEY`",
        example='"file:/run/secrets/brave-key"',
    ),
    Key("search.brave_url", "address of Brave's API", is_url),
    Key(
        "sandbox.kind",
        "auto takes bubblewrap, else Landlock; docker and direct only if written here",
    ),
    Key("sandbox.memory", "megabytes of data of one process", at_least(16)),
    Key("sandbox.processes", "most processes and threads of one command", at_least(8)),
    Key("sandbox.file_size", "megabytes of one file", at_least(1)),
    Key("sandbox.tmp", "megabytes of all temporary files", at_least(1)),
    Key("sandbox.bubblewrap", "the program, by its name on PATH or its path"),
    Key("sandbox.docker_socket", "socket of a container engine; it is as good as root"),
    Key("sandbox.docker_image", "image of the container"),
    Key(
        "skills.folders",
        "folders with skills beside those of the workspace; they are only read",
        example='["/srv/team-skills"]',
    ),
    Key("skills.always", "skills whose instructions stand in every prompt", example='["style"]'),
    Key("skills.off", "skills that are not used", example='["github"]'),
    Key(
        "backup.folder",
        "folder of the backups; a second disk is better",
        default="`backups` in paths.state",
        example='"/mnt/backups/elwood"',
    ),
    Key("backup.keep", "newest backups that stay, beside those of the last weeks", at_least(1)),
    Key("backup.every", "seconds between two backups; 0 for none", none_or(60, 366 * 86_400)),
    Key("backup.size", "megabytes of one backup at most, unpacked", at_least(1)),
    Key("log.level", "the least severe that is logged"),
    Key("watchdog.turn", "seconds after which an answer under way is stuck", at_least(1)),
    Key("watchdog.poll", "seconds after which a poll is stuck", at_least(1)),
    Key("watchdog.delivery", "seconds after which an undelivered reply is stuck", at_least(1)),
)
BY_PATH = {key.path: key for key in KEYS}
# What each section is about.
SECTIONS = {
    "owner": "You.",
    "paths": "Folders, absolute or from `~` on.",
    "models": "Which models think.",
    "providers": (
        "Services that run models, one table each. `anthropic`, `openai`, `ollama` (at "
        "127.0.0.1:11434) and `offline` exist without being written; what is written adds to them."
    ),
    "limits": "What may be spent. Checked before each model call; no limits unless written.",
    "heartbeat": (
        "HEARTBEAT.md of the workspace: a checklist that is gone through at intervals, and tasks. "
        "Nothing in it, or nothing that changed, costs nothing. See docs/operating.md."
    ),
    "tasks": (
        "What is done at times, one table each. `when` is `every 30 minutes`, `hourly`, `daily`, "
        "`weekly`, `biweekly`, `monthly`, `2026-12-24 18:00`, or a cron expression such as "
        "`30 7 * * 1-5`. See docs/operating.md."
    ),
    "turn": "Bounds of one answer.",
    "approvals": "How you are asked whether a tool may do something.",
    "sessions": "Conversations.",
    "memory": "What is remembered across conversations. See docs/operating.md.",
    "learning": (
        "What is noticed in conversations. A quiet stretch with something new costs one short call "
        "of models.summarizer, less than a cent with the default; it counts against `limits`."
    ),
    "telegram": "The Telegram channel.",
    "policy": (
        "Your own word about tools, by name or by a pattern of the id, such as `web.*`. What would "
        "be asked is allowed by `allow`, but nothing that strangers' words may have caused."
    ),
    "egress": (
        "The web. A domain stands for its subdomains too; `blocked` wins over `always_ask`, and "
        "that over `allowed`. Addresses inside your network are never reached."
    ),
    "search": "Who searches the web for Elwood; without either there is no search.",
    "sandbox": "Where commands run. See docs/sandbox.md.",
    "skills": "Instructions for kinds of work, each a folder with a SKILL.md.",
    "backup": (
        "Copies of the state folder and the workspace. Beside the newest `keep`, the last of each "
        "of the last four weeks stays. See docs/operating.md."
    ),
    "log": "What is written to stderr.",
    "watchdog": "When something counts as stuck: it is then told to the owner.",
}
