"""Requested paths: which spellings are refused, and which names hold secrets.

Only the spelling is checked here; the kernel ensures that a path stays inside its root
(`confined`).
"""

import re
import unicodedata
from collections.abc import Collection
from fnmatch import translate

import msgspec

from elwood.foundation.text.lines import escape_name

# Limits of Linux: PATH_MAX and NAME_MAX, in bytes.
MAX_PATH = 4096
MAX_NAME = 255


# Names that hold secrets in any folder, in lower case.
SECRET_NAMES = (
    ".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc",
    ".pypirc", ".git-credentials", ".htpasswd", ".vault-token", ".credentials",
    ".credentials.json", "credentials.json", "credentials.toml", "auth-profiles.json",
    "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", "service-account*.json",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks",
    "*.keystore", "*.kdbx", "*.ppk", ".*_history",
    ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".password-store",
)  # fmt: skip
# Exceptions: names that are similar and made to be shown.
HARMLESS_NAMES = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub")


class _Patterns(msgspec.Struct, frozen=True):
    """Exact names and name patterns; most names are in the set, which is built quickly."""

    exact: frozenset[str]
    like: re.Pattern[str]

    def match(self, name: str) -> bool:
        return name in self.exact or self.like.match(name) is not None


def _patterns(names: Collection[str]) -> _Patterns:
    like = {name for name in names if "*" in name}
    # Without patterns, a pattern that never matches.
    pattern = "|".join(map(translate, sorted(like))) or "(?!)"
    return _Patterns(frozenset(names) - like, re.compile(pattern))


_secret, _harmless = _patterns(SECRET_NAMES), _patterns(HARMLESS_NAMES)

# Names in any folder, in lower case, that content from strangers must never be written to (TA-23):
# such files are followed or run later without any question.
_PROTECTED = (
    ("it instructs an assistant", (
        "agents.md", "soul.md", "identity.md", "user.md", "tools.md", "heartbeat.md",
        "bootstrap.md", "memory.md", "skill.md", "claude.md", "claude.local.md", "gemini.md",
        "skills", "agents", ".agents", ".claude", ".codex", ".gemini", ".cursor", ".cursorrules",
        ".windsurf", ".windsurfrules", ".clinerules", "copilot-instructions.md",
    )),
    ("it adds tools to an assistant, or an assistant runs it", (
        "tools", "scripts", ".elwood", ".mcp.json", "mcp.json", ".mcp",
    )),
    ("it configures an assistant", ("config.toml", "agent.toml", ".aider.conf.yml")),
    ("git runs the programs in it", (
        ".git", "git~1", ".gitattributes", ".gitconfig", ".gitmodules", ".githooks", ".husky",
        ".pre-commit-config.yaml", "lefthook.yml",
    )),
    ("a service runs it after a push", (".github", ".gitlab", ".gitlab-ci.yml", ".circleci")),
    ("a shell runs it when it starts or enters the folder", (
        ".envrc", ".direnv", ".profile", ".bashrc", ".bash_*", ".zshrc", ".zshenv", ".zprofile",
        ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout",
        ".inputrc", ".pam_environment", ".mise.toml", "mise.toml",
    )),
    ("a session or the system runs it when it starts", (
        ".config", ".local", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", "autostart",
        "systemd", "*.service", "*.timer", "*.socket", "*.desktop", "crontab", "cron.*",
        ".forward", ".procmailrc", ".ssh", ".rhosts", ".shosts",
    )),
    ("an editor runs the programs in it when the folder is opened", (
        ".vscode", ".idea", ".fleet", ".zed", ".devcontainer", "*.code-workspace", ".vimrc",
        ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".vim", ".emacs", ".emacs.d",
        ".dir-locals.el",
    )),
    ("a program reads it at its start, and runs the commands in it", (
        ".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn", ".pnpmfile.cjs", ".pypirc", ".pip",
        "pip.conf", ".condarc", ".gemrc", ".bundle", ".cargo", ".bazelrc", "sitecustomize.py",
        "usercustomize.py", "*.pth", ".pythonrc*", ".pdbrc", ".gdbinit", ".lldbinit", ".irbrc",
        ".pryrc", ".rprofile", ".psqlrc", ".sqliterc", ".curlrc", ".wgetrc", ".tmux.conf",
        ".screenrc",
    )),
)  # fmt: skip
_protected = tuple((reason, _patterns(names)) for reason, names in _PROTECTED)


def refusal(path: str) -> str | None:
    """Return why the spelling of *path* is refused; None if it is valid.

    Nothing is decoded or expanded: ``%2e``, ``~`` and ``$HOME`` are ordinary names.
    """
    if not path:
        return "the path is empty"
    if escape_name(path) != path:
        return "the path has a control character or an invisible one"
    if len(path.encode()) >= MAX_PATH:
        return f"the path is longer than {MAX_PATH} bytes"
    if any(len(name.encode()) > MAX_NAME for name in path.split("/")):
        return f"a name in the path is longer than {MAX_NAME} bytes"
    return None


def holds_secrets(path: str) -> bool:
    """Return True if any name in *path* is one for secrets, in any case."""
    return any(_is_secret(name) for name in _names(path))


def protection(path: str) -> str | None:
    """Return why content from strangers may not be written to *path*; None if it may."""
    names = _names(path)
    for reason, pattern in _protected:
        if any(pattern.match(name) for name in names):
            return reason
    return None


def is_git(path: str) -> bool:
    """Return True if *path* is git's own folder or in it: no file tool writes there."""
    return any(name in (".git", "git~1") for name in _names(path))


def _names(path: str) -> list[str]:
    """Split *path* into names, normalized so that names which a disk may treat as equal are equal.

    Many disks ignore case, some ignore invisible characters and forms of letters (CVE-2014-9390).
    """
    if path.isascii():
        return path.lower().split("/")
    plain = unicodedata.normalize("NFKC", path).casefold()
    return "".join(c for c in plain if unicodedata.category(c) != "Cf").split("/")


def _is_secret(name: str) -> bool:
    return _secret.match(name) and not _harmless.match(name)
