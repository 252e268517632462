# Elwood as an application.  nixpkgs brings its own versions: pyproject.toml has loose lower bounds.
{
  lib,
  python3Packages,
  git,
}:
let
  pyproject = lib.importTOML ../pyproject.toml;
  metadata = pyproject.project;
  # "trio>=0.27" to the package: nixpkgs calls all of them as PyPI does.
  packages = map (
    requirement: python3Packages.${lib.head (builtins.match "([A-Za-z0-9-]+).*" requirement)}
  );
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
      ../share
      ../tests
      ../workspace
    ];
  };

  build-system = packages pyproject.build-system.requires;
  dependencies = packages metadata.dependencies;
  # Without the extras `web` and `code`, which are planned: nixpkgs has no anycorn, and
  # pydantic-monty may be missing too.
  optional-dependencies = lib.genAttrs [
    "mcp"
    "media"
    "tui"
    "vectors"
  ] (extra: packages metadata.optional-dependencies.${extra});

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
