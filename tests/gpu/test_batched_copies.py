import pytest

from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.batch_probe import probe_batch
from pega_tune.kernels.driver import DriverTable
from pega_tune.kernels.facts import DeviceFacts

pytestmark = pytest.mark.gpu


def test_the_probe_answers_for_the_newest_signature_or_says_why_not(gpu: DeviceFacts) -> None:
    support = probe_batch(0)
    if support.supported:
        assert support.signature is BatchSignature.newest(DriverTable.resolve())
    else:
        assert support.reason
        assert "the probe failed" not in support.reason  # a bug of ours


def test_a_driver_without_the_function_is_told_from_one_in_which_it_fails(gpu: DeviceFacts) -> None:
    support = probe_batch(0)
    has_none = BatchSignature.newest(DriverTable.resolve()) is None
    assert has_none == ("has no cuMemcpyBatchAsync" in support.reason)
