"""The assistant's half of the configuration, while Elwood runs."""

from collections.abc import Callable, Sequence

from elwood.foundation.settings import Config, Settings


class OwnConfig:
    """The assistant's half of the configuration, agent.toml: *now* is all as last read well.

    It is *config* with what stands there in *sections*; *read* makes that of a text, and raises
    CliFailure with all that is wrong.  Whoever keeps the file sets *now*; others ask it each time.
    """

    def __init__(
        self, config: Config, read: Callable[[str], Config], sections: Sequence[type[Settings]] = ()
    ) -> None:
        self.now = config
        self.read = read
        self.sections = sections
