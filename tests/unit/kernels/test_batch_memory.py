"""Batched copies that have worked are not tried again; those that have not are."""

from dataclasses import replace
from pathlib import Path

import pytest

from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.batch_memory import remembered_batch
from pega_tune.kernels.batch_probe import BatchSupport
from pega_tune.kernels.compile_cache import NO_CACHE, CompileCache
from pega_tune.kernels.facts import DeviceFacts
from tests.helpers.bundles import DEVICE as FACTS

ENVIRONMENT = (("CUDA_VISIBLE_DEVICES", "0"),)
WORKS = BatchSupport(True, BatchSignature.V2)


class Probe:
    """Answers in turn, the last answer again and again."""

    def __init__(self, *answers: BatchSupport) -> None:
        self._answers = list(answers)
        self.asked = 0

    def __call__(self, ordinal: int) -> BatchSupport:
        assert ordinal == 3
        self.asked += 1
        return self._answers.pop(0) if self._answers[1:] else self._answers[0]


@pytest.fixture
def cache(tmp_path: Path) -> CompileCache:
    return CompileCache(tmp_path / "cache")


def test_what_has_worked_is_not_tried_again(cache: CompileCache) -> None:
    probe = Probe(WORKS)
    assert [remembered_batch(3, FACTS, ENVIRONMENT, cache, probe) for _ in range(3)] == [WORKS] * 3
    assert probe.asked == 1


def test_what_has_not_worked_is_tried_again(cache: CompileCache) -> None:
    refused = BatchSupport.no("the probe was killed by SIGSEGV")
    probe = Probe(refused, refused, WORKS)
    assert [remembered_batch(3, FACTS, ENVIRONMENT, cache, probe) for _ in range(4)] == [refused, refused, WORKS, WORKS]
    assert probe.asked == 3


def test_nothing_is_remembered_without_a_cache() -> None:
    probe = Probe(WORKS)
    for _ in range(2):
        assert remembered_batch(3, FACTS, ENVIRONMENT, NO_CACHE, probe) == WORKS
    assert probe.asked == 2


@pytest.mark.parametrize(
    "other",
    [
        replace(FACTS, uuid="GPU-2"),
        replace(FACTS, staleness=replace(FACTS.staleness, driver="999.1")),
        replace(FACTS, staleness=replace(FACTS.staleness, host_kernel="9.9")),
    ],
)
def test_another_device_or_driver_is_tried_for_itself(cache: CompileCache, other: DeviceFacts) -> None:
    probe = Probe(WORKS)
    for facts in (FACTS, other):
        remembered_batch(3, facts, ENVIRONMENT, cache, probe)
    assert probe.asked == 2


def test_a_client_of_a_daemon_is_tried_for_itself(cache: CompileCache) -> None:
    probe = Probe(WORKS)
    for directory in (None, "/run/one", "/run/two"):
        remembered_batch(3, FACTS, (("CUDA_MPS_PIPE_DIRECTORY", directory),), cache, probe)
    assert probe.asked == 3
