from collections.abc import Iterator, Sequence

import pytest

from pega_tune.autotune.cuda.timing import Timing, time_transfer


class FakeRun:
    def __init__(self, name: str, log: list[str], device_s: float = 1e-3) -> None:
        self._name, self._log, self._device_s = name, log, device_s

    def rehearse(self) -> None:
        self._log.append(f"rehearse {self._name}")

    def prepare(self) -> None:
        self._log.append(f"prepare {self._name}")

    def submit(self) -> None:
        self._log.append(f"submit {self._name}")

    def wait(self, others: Sequence["FakeRun"] = ()) -> float:
        self._log.append(f"wait {', '.join(run._name for run in (self, *others))}")
        return 0.25

    def device_s(self) -> float:
        return self._device_s


def _ticks(*times_ns: int) -> Iterator[int]:
    yield from times_ns


def test_the_parts_of_a_transfer() -> None:
    ticks = _ticks(1_000, 21_000, 51_000, 151_000)  # the first is read after the rehearsal
    timing = time_transfer([FakeRun("load", [])], lambda: next(ticks))
    assert timing == Timing(
        transfer_s=pytest.approx(150e-6),
        prepare_s=pytest.approx(20e-6),
        submit_s=pytest.approx(30e-6),
        device_s=1e-3,
        wait_cpu_s=0.25,
    )


def test_both_directions_are_submitted_back_to_back_and_the_longer_one_counts() -> None:
    log: list[str] = []
    runs = [FakeRun("load", log, 2e-3), FakeRun("save", log, 5e-3)]
    timing = time_transfer(runs, meanwhile=lambda: log.append("meanwhile"))
    assert log == [
        "rehearse load",
        "rehearse save",
        "prepare load",
        "prepare save",
        "submit load",
        "submit save",
        "meanwhile",
        "wait load, save",
    ]
    assert timing.device_s == 5e-3
