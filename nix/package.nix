# Elwood as an application.  nixpkgs brings its own versions: pyproject.toml has loose lower bounds.
{
  lib,
  python3Packages,
  git,
}:
let
  metadata = (lib.importTOML ../pyproject.toml).project;
in
python3Packages.buildPythonApplication {
  pname = metadata.name;
  inherit (metadata) version;
  pyproject = true;

  # Only what the build and the tests read, so that not every change of the repository rebuilds.
  src = lib.fileset.toSource {
    root = ../.;
    fileset = lib.fileset.unions [
      ../LICENSE
      ../README.md
      ../docs
      ../elwood
      ../nix
      ../pyproject.toml
      ../tests
      ../workspace
    ];
  };

  build-system = [ python3Packages.hatchling ];

  dependencies = with python3Packages; [
    attrs
    cattrs
    cronsim
    httpx2
    markdown-it-py
    msgspec
    selectolax
    tomli-w
    trio
    trio-websocket
  ];

  # The extras `web` and `code` are planned: anycorn and pydantic-monty are not in nixpkgs.
  optional-dependencies = {
    mcp = [ python3Packages.mcp ];
    tui = [ python3Packages.textual ];
    vectors = [ python3Packages.sqlite-vec ];
  };

  nativeCheckInputs = [
    git
    python3Packages.hypothesis
    python3Packages.pytest-trio
    python3Packages.pytestCheckHook
  ];
  # Measurements need a quiet machine, which a build is not.
  disabledTestMarks = [ "bench" ];
  pythonImportsCheck = [ "elwood" ];

  meta = {
    inherit (metadata) description;
    license = lib.licenses.mit;
    mainProgram = "elwood";
    platforms = lib.platforms.linux;
  };
}
