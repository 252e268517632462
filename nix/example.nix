# The least a NixOS configuration says about Elwood; the checks evaluate it.
{
  services.elwood = {
    enable = true;
    settings = {
      owner.timezone = "Europe/Berlin";
      models.roles.default.model = "anthropic/claude-sonnet-5-5";
      telegram.owners = [ 123456789 ];
    };
    credentials = {
      telegram-token = "/run/secrets/elwood-telegram-token";
      anthropic-key = "/run/secrets/elwood-anthropic-key";
    };
  };
}
