"""Spellings of paths, and names of secrets."""

import pytest

from elwood.foundation.storage.paths import holds_secrets, is_git, protection, refusal


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("a.txt", False),
        ("../x", False),  # the kernel checks this
        ("/etc/passwd", False),
        ("a" * 255, False),
        ("ü" * 127, False),
        ("x/" * 2047, False),
        ("", True),
        ("a\0", True),
        ("a\n", True),
        ("a\x7f", True),
        ("a\x85b", True),
        ("gnp\u202eexe", True),
        ("\u2066x", True),
        ("\u200fx", True),
        ("x\udcff", True),
        ("a" * 256, True),
        ("ü" * 128, True),
        ("x/" * 2048, True),
    ],
)
def test_spelling(path: str, refused: bool) -> None:
    assert (refusal(path) is not None) is refused


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        (".env", True),
        (".env.local", True),
        ("prod.env", True),
        (".ENV", True),
        ("sub/.ssh/known_hosts", True),
        ("ID_RSA", True),
        ("x.pem", True),
        ("server.key", True),
        (".bash_history", True),
        ("auth-profiles.json", True),
        (".env.example", False),
        ("id_rsa.pub", False),
        ("environment.md", False),
        ("monkey.txt", False),
        ("history.txt", False),
        ("pem.txt", False),
        (".git/config", False),
    ],
)
def test_names_of_secrets(path: str, secret: bool) -> None:
    assert holds_secrets(path) is secret


@pytest.mark.parametrize(
    ("path", "protected"),
    [
        *((f"x/{name}", True) for name in (
            "AGENTS.md", "Soul.MD", "identity.md", "USER.md", "TOOLS.md", "HEARTBEAT.md",
            "skills/a/b.txt", "skills", ".agents/x", "agents/x", "tools/x.py", "scripts/x.sh",
            "config.toml", "agent.toml", ".git/hooks/pre-commit", ".gitattributes", ".gitconfig",
            ".envrc", ".bashrc", ".profile", ".bash_login", ".zshenv", ".config/x", ".ssh/x",
            "autostart/x.desktop", "systemd/user/x.service", "x.timer", "crontab", "cron.d/x",
            ".vscode/tasks.json", ".idea/x", ".npmrc", ".mcp.json", "SKILLS/x", "AGENT\u200bS.md",
            "\uff21GENTS.md", ".g\u200cit/config",
        )),
        *((f"x/{name}", False) for name in (
            "agents.txt", "my-agents.md", "skill.txt", "toolshed/x", "script.sh", "Makefile",
            "README.md", "settings.toml", ".gitignore", "profile", "bashrc", "timer.md", "user.txt",
            "gitattributes", "vscode/x", "crontabs.md",
        )),
    ],
)  # fmt: skip
def test_untrusted_sessions_cannot_write_everywhere(path: str, protected: bool) -> None:
    assert (protection(path) is not None) is protected


@pytest.mark.parametrize(
    ("path", "git"),
    [(".git", True), ("a/.Git/x", True), ("GIT~1/x", True), ("a.git/x", False), (".github", False)],
)
def test_git_keeps_its_own_files(path: str, git: bool) -> None:
    assert is_git(path) is git
