from elwood.agent.feature import Feature, imported

FEATURE = Feature(
    name="files",
    build=imported("elwood.features.files.search_tools", "build"),
    tools={
        "list_files": "files.folder.list",
        "read_file": "files.file.read",
        "write_file": "files.file.write",
        "edit_file": "files.file.edit",
        "find": "files.name.find",
        "grep": "files.text.search",
    },
)
