"""`elwood` with the extra tool ``act``, of class once: ``python -m tests.journeys.effectful``.

Without a command it is `elwood run`.

``act`` appends a line to *effects* in the workspace. While the file *hold* exists, it does not
return after that.
"""

import argparse
import os
import sys
from pathlib import Path

import msgspec
import trio

from elwood.agent.feature import Feature
from elwood.agent.parts import Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.tools.tool import Tool, ToolContext
from elwood.app import serving
from elwood.app.cli import main
from elwood.app.config.load import load
from elwood.app.main import ALL
from elwood.foundation import log
from elwood.foundation.log import LogSettings
from elwood.foundation.secrets.redaction import redact

EFFECTS, HOLD = "effects", "hold"
# Grace period in seconds after SIGTERM: shorter than in production to save time, but enough for a
# second delivery attempt.
GRACE = 1.5


class Act(msgspec.Struct, forbid_unknown_fields=True):
    name: str


async def build(core: Core, others: Gathered) -> Parts:
    workspace = core.paths.workspace

    async def act(given: Act, context: ToolContext) -> str:
        # Time for a kill before the effect, and more after it, where a repeat would do harm.
        await trio.sleep(0.01)
        with (workspace / EFFECTS).open("a") as file:
            file.write(f"{given.name}\n")
        await trio.sleep(0.06)
        while True:
            if not (workspace / HOLD).exists():
                return f"acted on {given.name}"
            await trio.sleep(0.01)

    tool = Tool("act", "Act.", Act, act, effect="once", target=lambda given: given.name)
    return Parts(tools=[tool])


if __name__ == "__main__":
    effects = Feature(name="effects", build=build, tools={"act": "own.act"})
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    given, command = parser.parse_known_args()
    if command:
        sys.exit(main(features=(*ALL, effects)))
    config = load(given.config, os.environ, (*ALL, effects))
    log.set_up(
        config.get(LogSettings), lambda text: redact(text, config.secrets), environ=os.environ
    )
    sys.exit(serving.run(config, more=(effects,), grace=GRACE))
