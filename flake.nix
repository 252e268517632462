{
  description = "Elwood, a self-hosted personal assistant";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      forEach = make: lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = forEach (pkgs: rec {
        elwood = pkgs.callPackage ./nix/package.nix { };
        default = elwood;
      });

      nixosModules = rec {
        elwood = ./nix/module.nix;
        default = elwood;
      };

      # What Elwood is built and tested with, and the tools of a change, in nixpkgs' versions.
      devShells = forEach (pkgs: {
        default = pkgs.mkShell {
          inputsFrom = [ self.packages.${pkgs.system}.elwood ];
          packages = [
            pkgs.bubblewrap
            pkgs.git
            pkgs.ruff
            pkgs.python3Packages.mypy
          ];
        };
      });

      checks = forEach (pkgs: {
        # Building it runs the tests.
        package = self.packages.${pkgs.system}.elwood;
        # The module evaluates with the example, and none of its assertions fails.
        module =
          let
            machine = lib.nixosSystem {
              inherit (pkgs) system;
              modules = [
                self.nixosModules.elwood
                ./nix/example.nix
                { system.stateVersion = "26.05"; }
              ];
            };
            failed = lib.filter (lib.hasInfix "services.elwood") (
              map (a: a.message) (lib.filter (a: !a.assertion) machine.config.assertions)
            );
          in
          assert lib.assertMsg (failed == [ ]) (lib.concatStringsSep "\n" failed);
          pkgs.writeText "elwood-unit.json" (
            builtins.toJSON machine.config.systemd.services.elwood.serviceConfig
          );
      });
    };
}
