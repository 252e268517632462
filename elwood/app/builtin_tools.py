"""The tools that Elwood brings along."""

from elwood.agent.tools.talk import ASK_USER, SEND_MESSAGE
from elwood.agent.tools.tool import Tool
from elwood.features.files.search_tools import FIND, GREP
from elwood.features.files.tools import LIST_FILES, READ_FILE
from elwood.features.files.write_tools import EDIT_FILE, WRITE_FILE
from elwood.features.memory.tools import FORGET_MEMORY, SAVE_MEMORY, SEARCH_MEMORY
from elwood.features.shell.tools import RUN_COMMAND
from elwood.features.skills.install_tools import FETCH_SKILL, INSTALL_SKILL
from elwood.features.skills.tools import ACTIVATE_SKILL
from elwood.features.tasks.tools import (
    CANCEL_TASK,
    LIST_TASKS,
    PAUSE_TASK,
    RESUME_TASK,
    SCHEDULE,
)
from elwood.features.web.tools import WEB_FETCH, WEB_REQUEST, WEB_SEARCH


def builtin() -> tuple[Tool, ...]:
    """List them, in the order in which the model sees them: it must not change by itself."""
    return (
        LIST_FILES,
        READ_FILE,
        WRITE_FILE,
        EDIT_FILE,
        FIND,
        GREP,
        RUN_COMMAND,
        WEB_SEARCH,
        WEB_FETCH,
        WEB_REQUEST,
        SEND_MESSAGE,
        ASK_USER,
        SAVE_MEMORY,
        SEARCH_MEMORY,
        FORGET_MEMORY,
        SCHEDULE,
        LIST_TASKS,
        PAUSE_TASK,
        RESUME_TASK,
        CANCEL_TASK,
        ACTIVATE_SKILL,
        FETCH_SKILL,
        INSTALL_SKILL,
    )
