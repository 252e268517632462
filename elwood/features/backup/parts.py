"""What backup brings to one run of the app."""

from elwood.agent.parts import Chore, Gathered, Parts, Report
from elwood.agent.session.core import Core
from elwood.features.backup.settings import BackupSettings


async def build(core: Core, others: Gathered) -> Parts:
    """Make the chore that takes them."""
    every = core.config.of(BackupSettings).every

    async def back_up(last: float) -> Report:
        # What packs archives takes 20 ms and 1 MB to import: a start must not wait for it.
        from elwood.features.backup.rules import BackupFailed
        from elwood.features.backup.store import planned

        try:
            said = await core.environment.blocking(lambda: planned(core.config, core.clock.now))
        except BackupFailed as error:
            return Report(f"no backup was taken: {error}", failed=True)
        return Report(said)

    chore = Chore(id="backup", title="take a backup", every=every, do=back_up)
    return Parts(chores=[chore] if every else [])
