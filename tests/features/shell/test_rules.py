"""The owner's own lines about commands, and the output of `elwood policy explain`."""

from pathlib import Path

import pytest

from elwood.agent.conversation.calls import RunCommand
from elwood.agent.policy.settings import PolicySettings
from elwood.app.cli import main
from elwood.features.shell.rules import rule
from elwood.features.shell.tools import ShellCommand
from elwood.foundation.storage.files import Root
from tests.features.shell.command_running import CONTEXT, command_tool

POLICY = PolicySettings(
    safe_commands=("make", "git push"),
    ask_commands=("cat", "git log", "make deploy"),
    dangerous_patterns=(r"--force\b",),
    blocked_patterns=("prod",),
)


@pytest.mark.parametrize(
    ("command", "judged", "setting"),
    [
        ("make -j4", "listed", "safe_commands"),
        ("git push origin main", "listed", "safe_commands"),
        ("make && git push | tail -n 3; ls", "listed", "safe_commands"),
        ("make clean; rm x", "unclear", ""),
        ("git pull", "unclear", ""),
        # Not hardened, or not parsed: the list does not cover those.
        ("make; git status", "unclear", ""),
        ("make $(rm x)", "unclear", ""),
        ("make > x", "unclear", ""),
        ("X=1 make", "unclear", ""),
        ("./make", "unclear", ""),
        ("'git push'", "unclear", ""),
        ("ls", "safe", ""),
        ("cat a", "ask", "ask_commands"),
        ("/bin/cat a", "ask", "ask_commands"),
        ("ls; git log", "ask", "ask_commands"),
        ("make deploy", "ask", "ask_commands"),
        ("git push --force", "ask", "dangerous_patterns"),
        ("echo prod", "forbidden", "blocked_patterns"),
        ("git push --force prod", "forbidden", "blocked_patterns"),
        ("make; sudo make", "forbidden", ""),
    ],
)
def test_the_strictest_line_decides(command: str, judged: str, setting: str) -> None:
    found = rule(command, POLICY)
    assert (found.action.judged, found.setting.removeprefix("policy.")) == (judged, setting)
    open_ = rule(command, POLICY, confined=False).action.judged
    assert open_ == ("forbidden" if judged == "forbidden" else "ask")


def test_a_pattern_of_the_owner_takes_linear_time() -> None:
    """Python's `re` would need longer than the age of the universe for this one."""
    policy = PolicySettings(blocked_patterns=("(a+)+$",))
    assert rule("a" * 5_000 + "!", policy).setting == ""
    assert rule("a" * 5_000, policy).setting == "policy.blocked_patterns"


@pytest.mark.parametrize("command", ["rm all", "rm all\n", "rm \ud800 all"])
def test_a_pattern_finds_the_end_of_a_command(command: str) -> None:
    policy = PolicySettings(blocked_patterns=("all$",))
    assert rule(command, policy).setting == "policy.blocked_patterns"


async def test_a_listed_command_needs_approval_if_its_code_is_untrusted(tmp_path: Path) -> None:
    root, tool = Root(tmp_path), command_tool(tmp_path, POLICY)
    action = (await tool.examine(ShellCommand("make"), CONTEXT)).action
    assert action == RunCommand("listed", "your settings call make safe")
    root.write("Makefile", b"all:\n\ttouch PWNED\n", untrusted=True)
    action = (await tool.examine(ShellCommand("make"), CONTEXT)).action
    assert action == RunCommand("unclear", "it uses a file that strangers may have written")


EXPLAINED = {
    "git push": "Elwood runs it without asking: your settings call git push safe.\n"
    "  Decided by policy.safe_commands: git push (FILE, line 4)\n"
    "After the conversation has read strangers' words:\n  Elwood asks you (each time): ",
    "cat a": "Elwood asks you (each time): your settings ask about cat.\n"
    "  Decided by policy.ask_commands: cat (FILE, line 6)\n",
    "make x": "Elwood asks you (you can allow it for good): make is not on the list of safe "
    "commands.\n  Decided by Elwood's defaults; your configuration has no rule for it.\n",
    "ls": "Elwood runs it without asking: it only reads.\n  Decided by Elwood's defaults",
    "rm -rf x": "Elwood never runs it: your settings block such commands.\n"
    "  Decided by policy.blocked_patterns: \\brm -rf (FILE, line 7)\n",
}


@pytest.mark.parametrize("command", EXPLAINED)
def test_explain_prints_the_decision_its_reason_and_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[policy]\nsafe_commands = [\n  # what I trust\n  "git push",\n]\n'
        "ask_commands = [\"cat\"]\nblocked_patterns = ['\\brm -rf']\n"
    )
    assert main(["--config", str(file), "policy", "explain", command]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{command}\n  {EXPLAINED[command].replace('FILE', str(file))}"), said


def test_explain_knows_the_rule_for_the_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[policy]\ndeny = ["shell.*"]\n')
    assert main(["--config", str(file), "policy", "explain", "ls"]) == 0
    line = f"Decided by policy.deny: shell.* ({file}, line 2)"
    assert (
        f"Elwood never runs it: your settings forbid run_command.\n  {line}\n"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("write_file", "Elwood asks you before each call.\n  Decided by policy.ask: files.* ("),
        ("files.file.read", "Elwood asks you before each call."),
        ("ask_user", "Your configuration has no rule for it"),
    ],
)
def test_explain_knows_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str, said: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[policy]\nask = ["files.*"]\n')
    assert main(["--config", str(file), "policy", "explain", tool]) == 0
    assert said in capsys.readouterr().out
