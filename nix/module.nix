# services.elwood: settings become config.toml, secrets come as systemd credentials, and the unit is
# as closed as bubblewrap and Node-based MCP servers allow.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;
  cfg = config.services.elwood;
  format = pkgs.formats.toml { };
  # The service would learn its folders from systemd; `elwood inspect` in a shell does not.
  paths = {
    state = "/var/lib/elwood";
    runtime = "/run/elwood";
  };
  settings = lib.recursiveUpdate { inherit paths; } cfg.settings;
  configFile = format.generate "elwood-config.toml" settings;

  # Secrets in the settings would be in the store; `file:` and `${VAR}` only say where one is.
  # Fields of settings, and tables of them, by their names.
  secretNames = [
    "brave_key"
    "client_secret"
    "headers"
    "key"
    "secrets"
    "token"
    "transcription_key"
  ];
  isSecret =
    path: value:
    lib.any (name: builtins.elem name secretNames) path
    && builtins.isString value
    && builtins.match "file:.*|[$][{].*[}]" value == null;
  secretsIn =
    path: value:
    if builtins.isAttrs value then
      lib.concatLists (lib.mapAttrsToList (name: secretsIn (path ++ [ name ])) value)
    else
      lib.optional (isSecret path value) (lib.concatStringsSep "." path);
  secretSettings = lib.concatLists (lib.mapAttrsToList (name: secretsIn [ name ]) cfg.settings);
in
{
  options.services.elwood = {
    enable = lib.mkEnableOption "Elwood, a self-hosted personal assistant";

    package = mkOption {
      type = types.package;
      default = pkgs.callPackage ./package.nix { };
      defaultText = lib.literalExpression "pkgs.callPackage ./package.nix { }";
      description = "The Elwood to run.";
    };

    settings = mkOption {
      inherit (format) type;
      default = { };
      example = lib.literalExpression ''
        {
          owner.timezone = "Europe/Berlin";
          models.roles.default.model = "anthropic/claude-sonnet-5-5";
          telegram.owners = [ 123456789 ];
          tasks = [
            {
              title = "Inbox";
              when = "0 8 * * 1";
              prompt = "Summarise what is new in the folder inbox.";
            }
          ];
        }
      '';
      description = ''
        The contents of config.toml; `elwood init` writes a commented one.  Secrets belong into
        {option}`services.elwood.credentials`.
      '';
    };

    credentials = mkOption {
      type = types.attrsOf types.str;
      default = { };
      example = {
        telegram-token = "/run/secrets/elwood-telegram-token";
        anthropic-key = "/run/secrets/elwood-anthropic-key";
      };
      description = ''
        Secrets by name: absolute paths of files that root can read when the service starts, as
        agenix or sops-nix provide them.  They must not lie in the Nix store.
      '';
    };

    user = mkOption {
      type = types.str;
      default = "elwood";
      description = "The user the service runs as; made here if it is `elwood`.";
    };

    group = mkOption {
      type = types.str;
      default = "elwood";
      description = "The group the service runs as; made here if it is `elwood`.";
    };
  };

  config = lib.mkIf cfg.enable {
    assertions = [
      {
        assertion = lib.all (lib.hasPrefix "/") (lib.attrValues cfg.credentials);
        message = "services.elwood.credentials: every path must be absolute";
      }
      {
        assertion = !lib.any (lib.hasPrefix builtins.storeDir) (lib.attrValues cfg.credentials);
        message = "services.elwood.credentials must not point into the store, which everybody can read";
      }
      {
        assertion = secretSettings == [ ];
        message =
          "services.elwood.settings would put secrets into the store, which everybody can read: "
          + lib.concatStringsSep ", " secretSettings
          + "; use services.elwood.credentials";
      }
    ];

    users.users = lib.mkIf (cfg.user == "elwood") {
      elwood = {
        isSystemUser = true;
        inherit (cfg) group;
        home = "/var/lib/elwood";
        description = "Elwood, a personal assistant";
      };
    };
    users.groups = lib.mkIf (cfg.group == "elwood") { elwood = { }; };

    environment.etc."elwood/config.toml".source = configFile;
    # For `elwood inspect`, `pair` and `doctor`.
    environment.systemPackages = [ cfg.package ];

    systemd.services.elwood = {
      description = "Elwood, a personal assistant";
      wantedBy = [ "multi-user.target" ];
      # Not a condition: without a network it starts too, and says so.
      wants = [ "network-online.target" ];
      after = [ "network-online.target" ];
      restartTriggers = [ configFile ];
      # Commands run in bubblewrap; without it they have the weaker walls of Landlock.  Git fetches
      # skills, and keeps the history of the workspace in backups.
      path = [
        pkgs.bubblewrap
        pkgs.git
      ];

      serviceConfig = {
        ExecStart = "${lib.getExe cfg.package} --config /etc/elwood/config.toml run";
        User = cfg.user;
        Group = cfg.group;

        # Ready when it polls; restarted when its actors no longer answer.
        Type = "notify";
        NotifyAccess = "main";
        WatchdogSec = 60;
        # The last step of the supervisors' ladder.  A wrong configuration (78, EX_CONFIG) stays
        # wrong until a person changes it.
        Restart = "always";
        RestartSec = 10;
        RestartPreventExitStatus = 78;
        # The house ends its own children, in order; what is left after 45 s is killed.
        KillMode = "mixed";
        TimeoutStopSec = 45;

        StateDirectory = "elwood";
        RuntimeDirectory = "elwood";
        WorkingDirectory = "/var/lib/elwood";
        # Backups may lie on another disk.
        ReadWritePaths = lib.optional (cfg.settings ? backup.folder) cfg.settings.backup.folder;
        LoadCredential = lib.mapAttrsToList (name: path: "${name}:${path}") cfg.credentials;

        # --- profile A: a bubblewrap sandbox for commands and Node-based MCP servers work --------
        # Left out on purpose, because each breaks one of the two: ProtectKernelTunables,
        # ProtectKernelLogs, ProtectHostname and ProcSubset=pid (bwrap cannot mount its /proc),
        # RestrictSUIDSGID (openat2 answers ENOSYS, newer bwrap fails), MemoryDenyWriteExecute
        # (node dies, also inside bwrap).  A process without capabilities loses little by that.

        # No setuid program gives a tool more rights than Elwood has.
        NoNewPrivileges = true;
        # Nothing is writable but the state, runtime and temporary folders.
        ProtectSystem = "strict";
        ProtectHome = true;
        PrivateTmp = true;
        PrivateDevices = true;
        ProtectKernelModules = true;
        ProtectControlGroups = true;
        ProtectClock = true;
        # Other users' processes are not to be seen.
        ProtectProc = "invisible";
        # The namespaces that bubblewrap makes; it is never asked for one of cgroups.
        RestrictNamespaces = "user pid net ipc uts mnt";
        RestrictRealtime = true;
        LockPersonality = true;
        RemoveIPC = true;
        KeyringMode = "private";
        CapabilityBoundingSet = "";
        AmbientCapabilities = "";
        # AF_NETLINK: bubblewrap brings up the loopback of its own network with it.
        RestrictAddressFamilies = "AF_UNIX AF_INET AF_INET6 AF_NETLINK";
        SystemCallArchitectures = "native";
        # Three lines, and their order counts: allow, take away, allow again.
        SystemCallFilter = [
          # @pkey: V8 dies without it.  Landlock and seccomp: a tool may be restricted further.
          "@system-service @pkey landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp"
          "~@privileged @resources @keyring userfaultfd"
          # bubblewrap hangs, rather than fails, without mounts and capset.
          "@mount capset sched_setaffinity setpriority"
        ];
        # An error, not a kill: programs that probe for a system call go on without it.
        SystemCallErrorNumber = "EPERM";
        UMask = "0077";
        StateDirectoryMode = "0700";
        # A core file would hold keys and conversations.
        LimitCORE = 0;
        LimitNOFILE = 8192;
        TasksMax = 512;
        MemoryMax = "2G";
        # A tool that eats the memory dies alone.
        OOMPolicy = "continue";
        # Who reaches these sockets is root.
        InaccessiblePaths = "-/run/docker.sock -/run/podman -/var/lib/docker";
      };
    };
  };
}
