from elwood.agent.feature import Feature, import_lazily

FEATURE = Feature(
    name="daily_notes",
    build=import_lazily("elwood.features.daily_notes.parts", "build"),
    settings=("elwood.features.daily_notes.settings:DailyNotesSettings",),
    chores=("daily-notes", "reflections"),
    tools={
        "create_thread": "daily_notes.thread.create",
        "append_thread": "daily_notes.thread.append",
    },
    carried_heads=import_lazily("elwood.features.daily_notes.store", "read_carried_heads"),
)
