"""Models by role, as most tests use them."""

from elwood.agent.models.settings import ModelSettings, RoleSettings


def asking(
    default: str,
    cheap: str | None = None,
    fallbacks: tuple[str, ...] = (),
    max_tokens: int | None = None,
) -> ModelSettings:
    """Use *default*, then its *fallbacks*; and *cheap* for its role."""
    usual = RoleSettings(model=default, fallbacks=fallbacks, max_tokens=max_tokens)
    return ModelSettings(roles={"default": usual, "cheap": RoleSettings(model=cheap)})
