"""What files brings to one run of the app."""

from elwood.agent.parts import Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.tools.tool import WorkspaceFiles
from elwood.features.files.search_tools import search_tools
from elwood.features.files.tools import reading_tools, writing_tools


async def build(core: Core, others: Gathered) -> Parts:
    root, blocking = core.workspace, core.environment.blocking
    files = WorkspaceFiles(root, others.lent, others.place)
    return Parts(
        tools=[
            *reading_tools(files, blocking),
            *writing_tools(root, blocking),
            *search_tools(root, blocking),
        ]
    )
