"""The tools that Elwood brings along."""

from elwood.tools import Tool
from elwood.tools.files import LIST_FILES, READ_FILE
from elwood.tools.finding import FIND, GREP
from elwood.tools.memory import FORGET_MEMORY, SAVE_MEMORY, SEARCH_MEMORY
from elwood.tools.new_skills import FETCH_SKILL, INSTALL_SKILL
from elwood.tools.scheduling import SCHEDULE
from elwood.tools.search import WEB_SEARCH
from elwood.tools.shell import RUN_COMMAND
from elwood.tools.skills import ACTIVATE_SKILL
from elwood.tools.talk import ASK_USER, SEND_MESSAGE
from elwood.tools.tasks import CANCEL_TASK, LIST_TASKS, PAUSE_TASK, RESUME_TASK
from elwood.tools.web import WEB_FETCH, WEB_REQUEST
from elwood.tools.writing import EDIT_FILE, WRITE_FILE


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
