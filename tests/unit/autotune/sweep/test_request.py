import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.serving import DEFAULT_MODEL, DecodeSpec
from pega_tune.autotune.sweep.presets import PRESETS
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.errors import DataError, UsageError
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation

sizes = st.integers(1, 2**40)
shapes = st.builds(
    lambda ranges, size, way, runs, pitch: TransferShape(
        ranges, ranges * size, way, runs and min(runs, ranges), None, pitch
    ),
    st.integers(1, 2**20),
    st.integers(1, 2**30),
    st.sampled_from(Direction),
    st.none() | st.integers(1, 2**10),
    st.none() | st.integers(2**30, 2**31),
)
requests = st.builds(
    SweepRequest,
    preset=st.sampled_from([p.name for p in PRESETS]),
    budget_s=st.none() | st.floats(0.1, 1e6),
    shapes=st.lists(shapes, max_size=4).map(tuple),
    max_device_bytes=st.none() | sizes,
    max_host_bytes=st.none() | sizes,
    colocations=st.lists(st.sampled_from(Colocation), max_size=4).map(tuple),
    decode=st.sampled_from(["", "torch", "external:a b"]),
    model=st.sampled_from(["qwen3-4b", "layers=2"]),
    allow_busy=st.booleans(),
    seed=st.integers(0, 2**31),
)


@given(requests)
def test_json_keeps_everything(request: SweepRequest) -> None:
    text = request.to_json()
    assert SweepRequest.from_json(text) == request
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def test_a_preset_says_where_decode_runs_and_the_first_workload_is_built_in() -> None:
    quick, standard = SweepRequest(), SweepRequest("standard")
    assert quick.colocations == (Colocation.IDLE, Colocation.TIME_SLICED)
    assert standard.colocations == (Colocation.IDLE, Colocation.TIME_SLICED, Colocation.SAME_CONTEXT)
    assert quick.decode_spec == DecodeSpec("builtin", DEFAULT_MODEL)


def test_colocations_come_once_and_idle_first() -> None:
    asked = (Colocation.MPS, Colocation.IDLE, Colocation.MPS)
    assert SweepRequest(colocations=asked).colocations == (Colocation.IDLE, Colocation.MPS)


@pytest.mark.parametrize("asked", [{"decode": "none"}, {"colocations": (Colocation.IDLE,)}], ids=str)
def test_without_decode_or_elsewhere_than_idle_nothing_decodes(asked: dict[str, object]) -> None:
    request = SweepRequest("standard", **asked)  # type: ignore[arg-type]
    assert (request.colocations, request.decode, request.decode_spec) == ((Colocation.IDLE,), "none", None)


@pytest.mark.parametrize("source", ["torch", "external:python steps.py"])
def test_other_workloads_are_taken_as_they_are(source: str) -> None:
    assert SweepRequest(decode=source, model="small").decode_spec == DecodeSpec(source, "small")


def test_colocations_with_nothing_that_decodes_are_refused() -> None:
    with pytest.raises(UsageError, match="nothing decodes with --decode none, but the colocation is time-sliced, mps"):
        SweepRequest(colocations=(Colocation.TIME_SLICED, Colocation.MPS), decode="none")


def test_an_unknown_workload_is_refused_and_the_known_ones_are_told() -> None:
    with pytest.raises(UsageError, match="no decode workload 'vllm'") as refusal:
        SweepRequest(decode="vllm")
    assert "builtin, torch, none, external:CMD" in refusal.value.hint


def test_a_request_of_before_there_was_decode_still_loads() -> None:
    stored = json.loads(SweepRequest(decode="none").to_json())
    del stored["model"]
    request = SweepRequest.from_json(json.dumps(stored))
    assert (request.colocations, request.decode_spec) == ((Colocation.IDLE,), None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"preset": "fast"},
        {"budget_s": 0.0},
        {"budget_s": float("nan")},
        {"max_device_bytes": 0},
        {"max_host_bytes": -1},
        {"decode": "external"},
    ],
    ids=str,
)
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        SweepRequest(**wrong)  # type: ignore[arg-type]


def test_shapes_lie_in_a_layout_and_come_once() -> None:
    plain = TransferShape(64, 65_536, Direction.H2D)
    known = (
        replace(plain, alignment=16),
        replace(plain, host_runs=4),
        replace(plain, host_runs=4, alignment=8),
        replace(plain, host_runs=1),
        replace(plain, pitch=9000),
        replace(plain, pitch=2048, host_runs=1),
        replace(plain, host_runs=5),  # of so few ranges that nothing follows
    )
    expected = [plain, *(NamedLayout.parse(word).described(plain) for word in ("runs:4", "host-ordered", "strided"))]
    assert list(SweepRequest(shapes=known).shapes) == expected
    words = [str(site.layout) for site in SweepRequest(shapes=known).sites]
    assert words == ["shuffled", "runs:4", "host-ordered", "strided"]


def test_a_pitch_of_unequal_ranges_is_refused() -> None:
    with pytest.raises(UsageError, match="strided ranges are equal"):
        SweepRequest(shapes=(TransferShape(3, 100, Direction.H2D, pitch=64),))


def test_a_request_of_before_shapes_had_layouts_still_loads() -> None:
    shapes = (TransferShape(4, 4096, Direction.H2D),)
    stored = json.loads(SweepRequest(shapes=shapes).to_json())
    assert stored["shapes"] == [[4, 4096, "h2d"]]
    assert SweepRequest.from_json(json.dumps(stored)).shapes == shapes


def test_limits_are_lowered_and_never_raised() -> None:
    capped = SweepRequest(max_device_bytes=10).capped(device_bytes=20, host_bytes=30)
    assert (capped.max_device_bytes, capped.max_host_bytes) == (10, 30)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"preset":"quick"}', SweepRequest().to_json()[:-1] + ',"more":1}'])
def test_what_is_not_a_request_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        SweepRequest.from_json(text)
