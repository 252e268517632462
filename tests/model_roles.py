"""Models by role, as most tests want them."""

from elwood.agent.models.settings import ModelSettings, RoleSettings


def asking(
    default: str,
    cheap: str | None = None,
    fallbacks: tuple[str, ...] = (),
    max_tokens: int | None = None,
) -> ModelSettings:
    """Ask *default*, then its *fallbacks*; and *cheap* for all that is done in its role."""
    usual = RoleSettings(model=default, fallbacks=fallbacks, max_tokens=max_tokens)
    return ModelSettings(roles={"default": usual, "cheap": RoleSettings(model=cheap)})
