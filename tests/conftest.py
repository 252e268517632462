"""The options of the test run."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=50, help="rounds of kill -9 (50)")
    parser.addoption("--kill-seed", type=int, default=None, help="repeat a run of kill -9")
    parser.addoption(
        "--kill-pairs", type=int, default=100, help="pairs of steps an asking house dies at (100)"
    )
    parser.addoption(
        "--policy-examples", type=int, default=2000, help="random calls the policy decides (2000)"
    )
    parser.addoption(
        "--fuzz-commands", type=int, default=600, help="random commands compared with bash (600)"
    )
    parser.addoption(
        "--bench-turns",
        type=int,
        default=50,
        help="turns per measurement in tests/bench (default 50)",
    )


@pytest.fixture
def bench_turns(request: pytest.FixtureRequest) -> int:
    turns: int = request.config.getoption("--bench-turns")
    return turns
