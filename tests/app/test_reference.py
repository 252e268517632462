"""The text for the operator agrees with the code."""

import re
from pathlib import Path

import attrs
import pytest

from elwood.agent.models.settings import Providers
from elwood.app.config.load import load
from elwood.app.config.template import template
from elwood.app.main import sections
from elwood.features.tasks.settings import ConfiguredTasks
from elwood.features.telegram.settings import TelegramSettings


def test_the_first_file_changes_no_default(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "first.toml").write_text(template())
    empty = load(tmp_path / "empty.toml", {"HOME": "/home/ada"})
    first = load(tmp_path / "first.toml", {"HOME": "/home/ada"})
    assert attrs.evolve(first, file=empty.file) == empty


def test_the_first_file_is_valid_with_every_line_enabled(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("k0\n")
    token.chmod(0o600)
    text = re.sub(r"^#(?! |$)", "", template(), flags=re.MULTILINE)
    text = re.sub(r"/run/secrets/[a-z-]+", str(token), text)
    (tmp_path / "all.toml").write_text(text)
    config = load(tmp_path / "all.toml", {"HOME": "/home/ada"})
    assert config.get(TelegramSettings).owners == (123456789,)
    assert "local" in config.get(Providers).by_name
    assert [task.id for task in config.get(ConfiguredTasks).tasks] == ["inbox"]
    assert text.count("\n[") == len(sections())


@pytest.mark.parametrize("line", template().splitlines())
def test_no_line_of_the_first_file_is_too_long_to_read(line: str) -> None:
    assert len(line) <= 100
