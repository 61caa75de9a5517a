import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.sweep.presets import PRESETS
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.errors import DataError, UsageError
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation

sizes = st.integers(1, 2**40)
shapes = st.builds(
    lambda ranges, size, way: TransferShape(ranges, ranges * size, way),
    st.integers(1, 2**20),
    st.integers(1, 2**30),
    st.sampled_from(Direction),
)
requests = st.builds(
    SweepRequest,
    preset=st.sampled_from([p.name for p in PRESETS]),
    budget_s=st.none() | st.floats(0.1, 1e6),
    shapes=st.lists(shapes, max_size=4).map(tuple),
    max_device_bytes=st.none() | sizes,
    max_host_bytes=st.none() | sizes,
    allow_busy=st.booleans(),
    seed=st.integers(0, 2**31),
)


@given(requests)
def test_json_keeps_everything(request: SweepRequest) -> None:
    text = request.to_json()
    assert SweepRequest.from_json(text) == request
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("colocation", [c for c in Colocation if c is not Colocation.IDLE])
def test_serving_colocations_are_refused(colocation: Colocation) -> None:
    with pytest.raises(UsageError, match=f"not in this version: colocation {colocation}"):
        SweepRequest(colocations=(Colocation.IDLE, colocation))


def test_decode_is_refused() -> None:
    with pytest.raises(UsageError, match="not in this version: decode builtin"):
        SweepRequest(decode="builtin")


@pytest.mark.parametrize(
    "wrong",
    [
        {"preset": "fast"},
        {"budget_s": 0.0},
        {"budget_s": float("nan")},
        {"max_device_bytes": 0},
        {"max_host_bytes": -1},
        {"colocations": ()},
    ],
    ids=str,
)
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        SweepRequest(**wrong)  # type: ignore[arg-type]


def test_shapes_are_counts_and_come_once() -> None:
    plain = TransferShape(4, 4096, Direction.H2D)
    assert SweepRequest(shapes=(TransferShape(4, 4096, Direction.H2D, host_runs=2, pitch=9), plain)).shapes == (plain,)


def test_limits_are_lowered_and_never_raised() -> None:
    capped = SweepRequest(max_device_bytes=10).capped(device_bytes=20, host_bytes=30)
    assert (capped.max_device_bytes, capped.max_host_bytes) == (10, 30)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"preset":"quick"}', SweepRequest().to_json()[:-1] + ',"more":1}'])
def test_what_is_not_a_request_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        SweepRequest.from_json(text)
