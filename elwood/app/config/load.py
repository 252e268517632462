"""Knows how the parts of the configuration come together, and finds all that is wrong at once."""

import math
import re
import tomllib
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from elwood.agent.models.routing import ProviderSettings
from elwood.app.config.problems import (
    ConfigErrors,
    Problem,
    Where,
    dotted,
)
from elwood.app.config.settings import (
    BUILT_IN,
    SECTIONS,
    Config,
    Owner,
)
from elwood.app.config.source import (
    FromVariable,
    Source,
    Tree,
    found,
    listed,
    parse,
)
from elwood.app.config.structure import described, structure, unknown
from elwood.features.tasks.settings import TaskForm, read_tasks
from elwood.features.tasks.task import Task
from elwood.foundation.secrets.store import SecretUnusable, look_up

# Bytes of a configuration file.
LARGEST = 1_048_576
# Where secrets are looked for when the configuration names none: credential and variable.
TELEGRAM_TOKEN = ("telegram-token", "ELWOOD_TELEGRAM_TOKEN")
BRAVE_KEY = ("brave-key", "BRAVE_API_KEY")
KEY_VARIABLES = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
# A provider's name becomes part of a credential's name.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def load(path: Path, environ: MutableMapping[str, str], *, secrets: bool = True) -> Config:
    """Read the configuration in *path*, with what *environ* sets over it.

    Looks up all *secrets*, and removes the variables they came from from *environ*; or has none,
    for commands that need no secret and may not be allowed to read them.
    Raises ConfigErrors with everything that is wrong, in the order of the file.
    """
    return _Loading(path, environ, secrets).config()


class _Loading:
    """One run of `load`: what has been read and what was wrong with it so far."""

    def __init__(self, path: Path, environ: MutableMapping[str, str], secrets: bool) -> None:
        self._path = path
        self._with_secrets = secrets
        self._environ = environ
        self._problems: list[Problem] = []
        self._inline: list[str] = []
        self._spent: set[str] = set()  # variables to be removed, since secrets came from them
        self._source = Source({}, {})

    def config(self) -> Config:
        self._source = self._read()
        if not self._with_secrets:
            _forget_secrets(self._source.tree)  # before they are missed
        self._source.expand(self._environ, self._complain)
        self._source.overlay(self._environ)
        tree = self._source.tree
        self._complete(tree)
        if self._with_secrets:
            self._secrets(tree)
        else:
            _forget_secrets(tree)
        for name in sorted(tree.keys() - SECTIONS.keys() - {"providers", "tasks"}):
            self._complain((name,), *unknown(name, [*SECTIONS, "providers", "tasks"]))
        sections = {name: self._section((name,), cls, name) for name, cls in SECTIONS.items()}
        providers = self._providers(tree["providers"])
        tasks = self._tasks(tree, sections["owner"])
        self._cross_check(tree, providers)
        if self._problems:
            order = sorted(self._problems, key=lambda p: (p.line or math.inf, p.variable or p.key))
            raise ConfigErrors(order)
        made: Mapping[str, object] = sections | {
            "providers": {k: v for k, v in providers.items() if isinstance(v, ProviderSettings)}
        }
        # Each section was structured into the class of its field; mypy cannot follow the names.
        inline = tuple(self._inline)
        return Config(**made, tasks=tasks, file=self._path, inline=inline)  # type: ignore[arg-type]

    def _complain(self, where: Where, what: str, remedy: str) -> None:
        line, variable = self._source.place(where)
        problem = Problem(
            file=self._path,
            key=dotted(where),
            what=what,
            remedy=remedy,
            line=line,
            variable=variable,
        )
        self._problems.append(problem)

    def _read(self) -> Source:
        try:
            with self._path.open("rb") as file:
                content = file.read(LARGEST + 1)
        except FileNotFoundError:
            raise self._unreadable("there is no such file", "run: elwood init") from None
        except IsADirectoryError:
            raise self._unreadable("is a folder", "name the file in it") from None
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
            raise self._unreadable(why, "make it readable for the user of Elwood") from error
        if len(content) > LARGEST:
            raise self._unreadable(f"is larger than {LARGEST} bytes", "is it the right file?")
        try:
            return parse(content.decode().replace("\r\n", "\n"))
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            # `from None`: the error holds the bytes, among them perhaps a secret.
            raise self._unreadable("is not UTF-8 text", "save it as UTF-8", line) from None
        except tomllib.TOMLDecodeError as error:
            what, line = str(error), None
            if found := re.fullmatch(
                r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", what
            ):
                what, line = found[1], int(found[2] or content.rstrip().count(b"\n") + 1)
            raise self._unreadable(f"not TOML: {what}", "see https://toml.io", line) from None
        except RecursionError:
            raise self._unreadable("is nested too deeply", "is it the right file?") from None

    def _unreadable(self, what: str, remedy: str, line: int | None = None) -> ConfigErrors:
        return ConfigErrors([Problem(file=self._path, what=what, remedy=remedy, line=line)])

    def _complete(self, tree: Tree) -> None:
        """Add the values that are computed, and the providers that exist unwritten."""
        for section in SECTIONS:
            tree.setdefault(section, {})
        paths = tree["paths"]
        if isinstance(paths, dict):
            home = Path(self._environ.get("HOME") or Path.home())
            for name, value in paths.items():
                if isinstance(value, str) and (value == "~" or value.startswith("~/")):
                    paths[name] = str(home / value[2:])
            for name, value in default_paths(paths, self._environ, home).items():
                paths.setdefault(name, value)
        providers = tree.setdefault("providers", {})
        if not isinstance(providers, dict):
            self._complain(
                ("providers",),
                f"expected a table, found {described(providers)}",
                "write a table for each, such as [providers.local]",
            )
            providers = tree["providers"] = {}
        for name, built_in in BUILT_IN.items():
            written = providers.setdefault(name, {})
            if isinstance(written, dict):
                providers[name] = built_in | written

    def _secrets(self, tree: Tree) -> None:
        """Put the secrets themselves in the places of their references."""
        self._secret(tree["telegram"], ("telegram", "token"), *TELEGRAM_TOKEN)
        self._secret(tree["search"], ("search", "brave_key"), *BRAVE_KEY)
        providers = tree["providers"]
        assert isinstance(providers, dict)
        for name, provider in providers.items():
            self._secret(
                provider, ("providers", name, "key"), f"{name}-key", KEY_VARIABLES.get(name)
            )
        for variable in self._spent:
            self._environ.pop(variable, None)

    def _secret(self, table: object, where: Where, name: str, variable: str | None) -> None:
        if not isinstance(table, dict):
            return
        key = str(where[-1])
        given = table.pop(key, None)
        if given is not None and not isinstance(given, str):
            what = "expected a text"  # and not what was found: it may be the secret
            self._complain(where, what, "put it into quotes")
            return
        expanded = self._source.expanded.get(where, set())
        _, from_variable = self._source.place(where)
        self._spent |= expanded | ({from_variable} if from_variable else set())
        if given and not given.startswith("file:") and not expanded and not from_variable:
            self._inline.append(dotted(where))
        if "/" in name or name in (".-key", "..-key"):
            return  # complained about as a provider's name
        if any(problem.key == dotted(where) for problem in self._problems):
            return  # a variable in it is not set
        try:
            table[key] = look_up(name, given, variable, self._environ)
        except SecretUnusable as error:
            self._complain(where, error.problem, error.remedy)

    def _section(self, where: Where, cls: type, described_as: str) -> object:
        raw = found(self._source.tree, where)
        made = structure(raw, cls, described_as)
        if not isinstance(made, list):
            return made
        for inner, what, remedy in made:
            place = (*where, *inner)
            is_task = where[0] == "tasks"
            if not inner and not isinstance(raw, FromVariable):
                remedy = f"begin it with {'[[tasks]]' if is_task else f'[{dotted(where)}]'}"
            if what == "no such key" and not is_task and self._elsewhere(str(inner[-1])):
                remedy = f"did you mean {self._elsewhere(str(inner[-1]))}?"
            if self._source.expanded.get(place):
                if any(problem.key == dotted(place) for problem in self._problems):
                    continue  # a variable is not set
                what = "the text with its variables put in is not what is wanted here"
            self._complain(place, what, remedy)
        return None

    @staticmethod
    def _elsewhere(key: str) -> str | None:
        places = [f"{name}.{key}" for name, cls in SECTIONS.items() if key in cls.__annotations__]
        return places[0] if len(places) == 1 else None

    def _providers(self, table: object) -> dict[str, object]:
        assert isinstance(table, dict)
        made: dict[str, object] = {}
        for name in table:
            where = ("providers", name)
            if not _NAME.fullmatch(name):
                self._complain(
                    where, "not a name for a provider", "use small letters, digits, - and _"
                )
            made[name] = provider = self._section(where, ProviderSettings, "providers.NAME")
            if not isinstance(provider, ProviderSettings):
                continue
            if provider.api != "offline" and not provider.base_url:
                self._complain((*where, "base_url"), "is missing", "write the API's address")
        return made

    def _tasks(self, tree: Tree, owner: object) -> tuple[Task, ...]:
        written = listed(tree.get("tasks", []))
        if written is None:
            what = f"expected tables, found {described(tree['tasks'])}"
            self._complain(("tasks",), what, "begin each with [[tasks]]")
            written = []
        tree["tasks"] = written
        forms = [self._section(("tasks", n), TaskForm, "tasks") for n in range(len(written))]
        zone = owner.timezone if isinstance(owner, Owner) else "UTC"
        return read_tasks(forms, zone, self._complain)

    def _cross_check(self, tree: Tree, providers: dict[str, object]) -> None:
        """Check that each model's provider exists, whatever else is wrong with the models."""
        fallbacks = listed(found(tree, ("models", "fallbacks"))) or []
        tasks = listed(tree["tasks"]) or []
        wanted: list[Where] = [
            ("memory", "embeddings"),
            ("models", "default"),
            ("models", "summarizer"),
            *(("models", "fallbacks", n) for n in range(len(fallbacks))),
            ("heartbeat", "model"),
            *(("tasks", n, "model") for n in range(len(tasks))),
        ]
        for where in wanted:
            model = found(tree, where)
            provider, slash, _ = model.partition("/") if isinstance(model, str) else ("", "", "")
            if provider and slash and provider not in providers:
                _, remedy = unknown(provider, providers)
                self._complain(where, f"there is no provider {provider}", remedy)


def _forget_secrets(tree: Tree) -> None:
    """Leave the secrets out, wherever they are kept."""
    providers = tree.get("providers")
    tables = [(table, "key") for table in providers.values()] if isinstance(providers, dict) else []
    tables += [(tree.get("telegram"), "token"), (tree.get("search"), "brave_key")]
    for table, key in tables:
        if isinstance(table, dict):
            table.pop(key, None)


def default_paths(
    given: Mapping[str, object], environ: Mapping[str, str], home: Path
) -> dict[str, str]:
    """Say where things are kept unless the configuration says so; *given* is what it says."""
    # systemd lists several folders with colons (systemd.exec(5)); ours is the first.
    of_systemd = environ.get("STATE_DIRECTORY", "").partition(":")[0]
    state = of_systemd or f"{home}/.local/state/elwood"
    written = given.get("state")
    if isinstance(written, str) and written.startswith("/"):
        state = str(written).rstrip("/")
    session = environ.get("XDG_RUNTIME_DIR")
    runtime = environ.get("RUNTIME_DIRECTORY", "").partition(":")[0] or (
        f"{session}/elwood" if session else f"{state}/run"
    )
    return {"state": state, "workspace": f"{state}/workspace", "runtime": runtime}
