"""No key: what a person at the console is told."""

from pathlib import Path

from tests.app.test_cli import configured, elwood

KEYLESS = """
[models]
default = "{name}/m"
summarizer = "{name}/m"
"""


def test_a_missing_key_is_named_before_anything_is_sent(tmp_path: Path) -> None:
    for name in ("anthropic", "openai"):
        home = tmp_path / name
        configured(home, KEYLESS.format(name=name))
        done = elwood(home, "once", "hello", ELWOOD__PATHS__RUNTIME=str(home))
        remedy = f"put it into the credential {name}-key, into ${name.upper()}_API_KEY, or name"
        assert f"there is no key for {name}: {remedy}" in done.stderr
        assert f"{name} (m) has no key: {remedy}" in done.stdout
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
