"""The options of the test run, and virtual time."""

from collections.abc import Awaitable, Callable, Sequence
from inspect import iscoroutinefunction
from os import environ

import pytest
import trio
from hypothesis import HealthCheck, settings
from trio.testing import MockClock

# The width of the user's terminal, or xdist's: a pipe has no columns.
environ.pop("COLUMNS", None)
# The duration of an example depends on the machine; tests/bench measures speed.
HOUSE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples in every run, so that the result depends only on the change;
# --hypothesis-profile=new tries others.
settings.register_profile("house", HOUSE, derandomize=True)
settings.register_profile("new", HOUSE)
settings.register_profile("quick", HOUSE, derandomize=True, max_examples=10)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=None, help="rounds of kill -9 (8)")
    parser.addoption("--kill-seed", type=int, default=None, help="repeat a run of kill -9")
    parser.addoption(
        "--kill-every", type=int, default=16, help="Elwood dies at every n-th step of a story (16)"
    )
    parser.addoption(
        "--kill-pairs", type=int, default=16, help="pairs of steps that Elwood dies at (16)"
    )
    parser.addoption(
        "--fuzz-commands", type=int, default=600, help="random commands compared with bash (600)"
    )
    parser.addoption(
        "--timing-examples", type=int, default=40, help="clocks compared minute by minute (40)"
    )
    parser.addoption(
        "--year-days", type=int, default=8, help="days of the year of planned times (8; 365)"
    )
    parser.addoption("--year-seed", type=int, default=1, help="another year of planned times")
    parser.addoption(
        "--key-sequences", type=int, default=40, help="random keys at the terminal (40; 10000)"
    )
    parser.addoption(
        "--bench-notes", type=int, default=2_000, help="memories in tests/bench (2000)"
    )
    parser.addoption(
        "--mcp-cycles", type=int, default=5, help="times that an MCP server is killed (5; 1000)"
    )
    parser.addoption(
        "--mcp-real", default=None, help="folder to install real MCP servers in, from registries"
    )
    parser.addoption("--updates", type=int, default=6_000, help="updates of random shapes (6000)")
    parser.addoption(
        "--busy-minutes", type=int, default=3, help="of simulated heavy use of Telegram (3; 60)"
    )
    parser.addoption(
        "--telegram-double", default=None, help="folder to install another Bot API in, from npm"
    )
    parser.addoption(
        "--all-shapes", action="store_true", help="hostile texts: all for each function"
    )
    parser.addoption("--skipped", default=None, help="add the tests that are skipped to this file")
    parser.addoption("--bench-turns", type=int, default=50, help="turns in tests/bench (50)")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the list of skipped tests: another user, such as root, may be able to run them."""
    config = terminalreporter.config
    path = None if hasattr(config, "workerinput") else config.getoption("--skipped")
    skipped = {report.nodeid for report in terminalreporter.stats.get("skipped", ())}
    if path and skipped:
        with open(path, "a", encoding="utf-8") as file:
            file.writelines(f"{one}\n" for one in sorted(skipped))


@pytest.fixture
def virtual_time() -> None:
    """Let time jump whenever all tasks wait, in tests with this fixture."""


def in_virtual_time(
    main: Callable[[], Awaitable[object]],
    *,
    clock: trio.abc.Clock | None,
    instruments: Sequence[trio.abc.Instrument],
) -> object:
    """Run a test as pytest-trio does, with this clock."""
    clock = clock or MockClock(autojump_threshold=0)
    return trio.run(main, clock=clock, instruments=instruments)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not isinstance(item, pytest.Function) or "virtual_time" not in item.fixturenames:
            continue
        if iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.trio(run=in_virtual_time), append=False)
