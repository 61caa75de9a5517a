"""A recorded sweep: what one device has answered, once and for all."""

from dataclasses import dataclass, field, replace

from pega_tune.kernels.facts import REPLAYED_PREFIX, DeviceFacts
from pega_tune.profiles.store.records import BlockRecord, SweepRecord
from pega_tune.profiles.store.store import Store


@dataclass(frozen=True, slots=True)
class Recording:
    """A sweep with all its samples.

    Attributes:
        sweep: what was run, when, and on which device; without the process that ran it.
        blocks: in the order of measuring.
        commit: of the sources that measured.
        command: that measured.
    """

    sweep: SweepRecord
    blocks: tuple[BlockRecord, ...]
    commit: str
    command: str
    _by_key: dict[str, BlockRecord] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sweep", replace(self.sweep, pid=None, host=None))
        object.__setattr__(self, "_by_key", {block.key: block for block in self.blocks})

    def block(self, key: str) -> BlockRecord | None:
        """The block of that key; None if there is none."""
        return self._by_key.get(key)

    @property
    def replayed(self) -> DeviceFacts:
        """The recorded device, marked so that nothing takes it for one that is here."""
        device = self.sweep.device
        marked = device.simulated or device.replayed
        return device if marked else replace(device, uuid=REPLAYED_PREFIX + device.uuid)


def record_sweep(store: Store, sweep_id: str, commit: str, command: str) -> Recording:
    """The recording of a stored sweep.

    Raises:
        DataError: there is no such sweep, or the database refuses.
    """
    sweep = store.sweep(sweep_id).sweep
    return Recording(sweep, tuple(store.blocks(sweep.sweep_id)), commit, command)
