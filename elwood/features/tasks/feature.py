"""The clock of Elwood: the timetable, the scheduler, and what they act with."""

from elwood.agent.feature import Feature, imported
from elwood.features.tasks.heartbeat import OwnHeartbeat
from elwood.features.tasks.settings import ConfiguredTasks, HeartbeatSettings, OwnTasks

FEATURE = Feature(
    name="tasks",
    build=imported("elwood.features.tasks.parts", "build"),
    settings=(HeartbeatSettings, ConfiguredTasks),
    own=(OwnTasks, OwnHeartbeat),
    checks=(imported("elwood.features.tasks.parts", "check"),),
    set_up=imported("elwood.features.tasks.parts", "set_up"),
)
