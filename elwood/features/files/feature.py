from elwood.agent.feature import Feature, import_lazily

FEATURE = Feature(
    name="files",
    build=import_lazily("elwood.features.files.search_tools", "build"),
    tools={
        "list_files": "files.folder.list",
        "read_file": "files.file.read",
        "write_file": "files.file.write",
        "edit_file": "files.file.edit",
        "find": "files.name.find",
        "grep": "files.text.search",
    },
)
