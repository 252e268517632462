"""The assistant's part of the configuration, while Elwood runs."""

from collections.abc import Callable, Sequence

from elwood.foundation.settings import Config, Settings


class OwnConfig:
    """The assistant's part of the configuration, agent.toml; *now* is the last valid version.

    *now* is *config* with the *sections* of the file. *read* parses a text, and raises CliFailure
    with all faults. The owner of the file sets *now*; readers use it each time.
    """

    def __init__(
        self, config: Config, read: Callable[[str], Config], sections: Sequence[type[Settings]] = ()
    ) -> None:
        self.now = config
        self.read = read
        self.sections = sections
