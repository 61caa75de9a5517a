"""What the device goes through while a block runs: telemetry taken between submission and completion."""

from collections.abc import Collection
from statistics import median_low
from typing import Protocol

from pega_tune.autotune.engine import Conditions
from pega_tune.kernels.facts import Link
from pega_tune.kernels.telemetry import TelemetrySample, other_processes


class Source(Protocol):
    """Telemetry of one device."""

    @property
    def unknown(self) -> str:
        """Why it gives nothing at all; empty while it works."""

    def sample(self) -> TelemetrySample:
        """The device now."""

    def compute_pids(self) -> tuple[int, ...] | None:
        """Processes with a context on the device now; None if unknown."""


class LoadSampler:
    """Gathers samples under load, block by block."""

    def __init__(self, source: Source, ours: int, before: tuple[int, ...] | None) -> None:
        """Starts with nothing gathered.

        Args:
            source: telemetry.
            ours: our process id.
            before: processes on the device just before our context was made; None if unknown.
        """
        self._source = source
        self._ours = ours
        self._before = before
        self._samples: list[TelemetrySample] = []
        self._others: set[int] = set()
        self._adopted: set[int] = set()
        self._found_us = False  # among those adopted

    def begin(self) -> None:
        """Forgets the last block."""
        self._samples = []
        self._others = set(self.others() or ())

    def sample(self) -> None:
        """Takes one sample; call it while the device is busy."""
        self._samples.append(self._source.sample())

    def others(self) -> tuple[int, ...] | None:
        """Processes on the device that are not ours, now; None if that cannot be told."""
        listed = self._source.compute_pids()
        strangers = tuple(pid for pid in listed or () if pid not in self._adopted)
        if listed and self._found_us:
            return strangers
        return other_processes(strangers, self._before, self._ours)

    def present(self) -> frozenset[int]:
        """Processes on the device now; none if unknown."""
        return frozenset(self._source.compute_pids() or ())

    def adopt(self, pids: Collection[int], before: frozenset[int] = frozenset()) -> None:
        """Takes processes that work for us for ours, too.

        In a container they may be listed under other ids. Then what has appeared is theirs, if it is no more than they
        are; of more nobody could say whose it is.

        Args:
            pids: their ids, in our namespace.
            before: what was present before they were.
        """
        appeared = self.present() - before
        known = appeared.intersection(pids)
        if known or len(appeared) <= len(pids):
            self._adopted |= known or appeared
            self._found_us |= self._ours in pids

    def conditions(self) -> Conditions:
        """Everything gathered since `begin`.

        The link is the fastest seen: it trains down between bursts, but under load it must have been up at least
        once. Everything that slowed the device at any time is named.
        """
        clocks = [s.sm_clock_hz for s in self._samples if s.sm_clock_hz is not None]
        links = [s.link for s in self._samples if s.link is not None]
        temperatures = [s.temperature_c for s in self._samples if s.temperature_c is not None]
        return Conditions(
            sm_clock_hz=median_low(clocks) if clocks else None,
            link=max(links, key=_speed, default=None),
            throttle_reasons=tuple(dict.fromkeys(name for s in self._samples for name in s.slowed_by or ())),
            other_processes=tuple(sorted(self._others | set(self.others() or ()))),
            temperature_c=max(temperatures, default=None),
            unknown=self._unknown(),
        )

    def _unknown(self) -> str:
        if self._source.unknown:
            return self._source.unknown
        if not self._samples:
            return "no sample was taken under load"
        missing = {
            "SM clock": all(s.sm_clock_hz is None for s in self._samples),
            "PCIe link": all(s.link is None for s in self._samples),
            "clock event reasons": all(s.slowed_by is None for s in self._samples),
        }
        names = ", ".join(name for name, absent in missing.items() if absent)
        return f"NVML does not tell: {names}" if names else ""


def _speed(link: Link) -> tuple[int, int]:
    return link.generation, link.width
