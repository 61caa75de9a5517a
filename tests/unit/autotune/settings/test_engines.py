"""What each engine can be told, and what it then does."""

import json
import shlex
from itertools import product

import pytest

from pega_tune.autotune.cli.export_settings import SETTINGS_FORMATS
from pega_tune.autotune.settings.engines import ENGINES
from pega_tune.autotune.settings.mix import Mix
from pega_tune.autotune.settings.setting import Ctas, Setting
from pega_tune.autotune.settings.times import Times
from pega_tune.autotune.settings.vllm import BATCH, VLLM
from pega_tune.autotune.sweep.plans import pegaflow_kernel
from pega_tune.errors import UsageError
from pega_tune.kernels.plan import MAX_GRID_BLOCKS, CopyPlan, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.timed_plans import Formula, FormulaSource, counted, times_of

SMS = 132


def wide(grid: int) -> Formula:
    """A kernel that is faster the wider it is."""
    return lambda shape: 1e-5 + shape.total_bytes / 4e9 / grid


def copies(per_range_s: float) -> Formula:
    """Copy engines: so long for each range."""
    return lambda shape: per_range_s * shape.merged_ranges + shape.total_bytes / 5e10


def of_engines(*grids: int) -> dict[CopyPlan, Formula]:
    """Kernels of CTAs that take whole ranges, of the sizes that engines have."""
    return {kernel(Variant.BLOCK, grid, threads): wide(grid) for grid in grids for threads in (128, 1024)}


BLOCKS = of_engines(2, 4, 8, 16, 32, 64, 128, MAX_GRID_BLOCKS)
WARPS = {kernel(Variant.WARP, grid, 1024): wide(grid) for grid in (1, 2, 8, 256)}
ENGINES_ALONE = {direct(): copies(2.5e-6), BATCH: copies(1e-6)}
ALL = {**BLOCKS, **WARPS, **ENGINES_ALONE, pegaflow_kernel(): wide(32)}


def test_every_engine_has_its_format():
    assert tuple(ENGINES) == SETTINGS_FORMATS


def told(name: str, times: Times) -> list[Setting]:
    return list(ENGINES[name].settings(times, SMS))


def test_pegaflow_takes_one_backend_for_both_ways():
    times = times_of(ALL, counted(64, 4096), counted(64, 4096, Direction.D2H))
    settings = told("pegaflow", times)
    assert [dict(s.values) for s in settings] == [
        {"pegaflow.transfer_backend": "direct"},
        {"pegaflow.transfer_backend": "kernel"},
    ]
    assert [set(s.pairs(times)) for s in settings] == [
        {(direct(), direct())},
        {(pegaflow_kernel(), pegaflow_kernel())},
    ]


def test_a_backend_of_which_nothing_is_known_is_not_offered():
    (setting,) = told("pegaflow", times_of({direct(): copies(1e-6)}, counted(64, 4096)))
    assert setting.values == {"pegaflow.transfer_backend": "direct"}


def test_the_quota_of_sglang_is_one_cta_per_sm_at_most():
    settings = told("sglang", times_of(ALL, counted(64, 4096)))
    assert [s.values["SGLANG_HICACHE_BLOCK_QUOTA"] for s in settings] == [1, 2, 8]


def test_a_cap_of_tokenspeed_is_as_many_programs_of_128_threads_and_none_a_grid_without_bounds():
    settings = told("tokenspeed", times_of(ALL, counted(64, 4096)))
    assert [s.values["TOKENSPEED_KV_ALL_LAYER_GRID_CAP"] for s in settings] == [2, 4, 8, 16, 32, 64, 128, 0]
    legs = [s.leg(TransferShape(64, 64 << 12), Direction.H2D) for s in settings]
    assert {leg.threads for leg in legs} == {128}
    assert legs[-1] == kernel(Variant.BLOCK, MAX_GRID_BLOCKS, 128)


def test_flexkv_chooses_for_each_direction_apart():
    settings = told("flexkv", times_of(ALL, counted(64, 4096), counted(64, 4096, Direction.D2H)))
    assert len(settings) == 8 * 8  # 2 to 128 CTAs of 1024 threads, and copy engines
    assert {
        "FLEXKV_USE_CE_TRANSFER_H2D": 1,
        "FLEXKV_USE_CE_TRANSFER_D2H": 0,
        "FLEXKV_TRANSFER_NUM_CTA_D2H": 32,
    } in [dict(s.values) for s in settings]


def test_flexkv_says_nothing_of_a_direction_that_the_mix_has_not():
    for setting in told("flexkv", times_of(ALL, counted(64, 4096))):
        assert not any(name.endswith("D2H") for name in setting.values)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("pegaflow", None),
        ("sglang", {"SGLANG_HICACHE_BLOCK_QUOTA": 2}),
        ("tokenspeed", {"TOKENSPEED_KV_ALL_LAYER_GRID_CAP": 32}),
        ("vllm", None),  # of 12 programs nothing is known
    ],
)
def test_the_default_is_told_if_something_measured_stands_for_it(name, default):
    found = ENGINES[name].default(times_of(ALL, counted(64, 4096)))
    assert (None if found is None else dict(found.values)) == default


def test_the_default_of_vllm_and_of_flexkv():
    formulas = {**ALL, **of_engines(12)}
    vllm = ENGINES["vllm"].default(times_of(formulas, counted(64, 4096)))
    assert dict(vllm.values) == {"NUM_SMS": 12, "THRESHOLD_BYTES": 28672, "MIN_N": 16}
    flexkv = ENGINES["flexkv"].default(times_of(ALL, counted(64, 4096)))
    assert flexkv.values["FLEXKV_TRANSFER_NUM_CTA_H2D"] == flexkv.values["FLEXKV_TRANSFER_NUM_CTA_D2H"] == 4


MIX = [
    counted(ranges, size, Direction.H2D, 1 + ranges % 7)
    for ranges, size in product((4, 64, 512, 4096), (512, 8192, 24 << 10, 64 << 10, 1 << 20))
]


def cost_s(times: Times, setting: Setting) -> float:
    return float(times.mix.counts @ setting.times_s(times))


def cliff(shape: TransferShape) -> float:
    """A batch call that is slow below 32 KiB, and more so the more ranges there are."""
    slow = shape.average_range_bytes < 32 << 10
    return 1e-6 * shape.merged_ranges * (6 if slow else 0.1) + shape.total_bytes / 5e10


def test_no_other_bounds_of_vllm_are_better():
    plan = kernel(Variant.BLOCK, 32, 128)
    times = times_of({BATCH: cliff, plan: lambda s: 4e-5 + s.total_bytes / 2e10}, *MIX)
    found = {s.values["NUM_SMS"]: s for s in told("vllm", times) if s.values["THRESHOLD_BYTES"]}
    best = cost_s(times, found[32])

    def bounded(threshold: int, least: int) -> Setting:
        def leg(shape: TransferShape, _direction: Direction) -> CopyPlan:
            small = shape.average_range_bytes < threshold and shape.merged_ranges >= least
            return plan if small else BATCH

        return Setting({}, leg)

    bounds = product((0, 513, 8193, 28672, 40_000, 70_000, 2 << 20), (1, 5, 65, 513, 5000))
    assert best == pytest.approx(min(cost_s(times, bounded(*each)) for each in bounds))
    assert found[32].values == {"NUM_SMS": 32, "THRESHOLD_BYTES": 28672, "MIN_N": 16}


def test_vllm_loads_only_small_ranges_of_large_batches_by_kernel_and_saves_nothing_by_it():
    plan = kernel(Variant.BLOCK, 32, 128)
    times = times_of({BATCH: cliff, plan: lambda s: 4e-5 + s.total_bytes / 2e10}, *MIX)
    setting = told("vllm", times)[1]
    small, few, large = (TransferShape(n, n * size) for n, size in ((64, 8192), (15, 8192), (64, 28672)))
    assert [setting.leg(s, Direction.H2D) for s in (small, few, large)] == [plan, BATCH, BATCH]
    assert setting.leg(small, Direction.D2H) == BATCH


def test_a_kernel_that_never_pays_has_no_bytes():
    plan = kernel(Variant.BLOCK, 32, 128)
    times = times_of({BATCH: copies(1e-9), plan: lambda _: 1.0}, *MIX)
    assert told("vllm", times)[1].values == {"NUM_SMS": 32, "THRESHOLD_BYTES": 0, "MIN_N": 16}


def test_bounds_away_from_the_defaults_are_tight():
    plan = kernel(Variant.BLOCK, 32, 128)
    traffic = [counted(ranges, size) for ranges in (20, 600) for size in (1024, 2048)]

    def slow_if_few(shape: TransferShape) -> float:
        return 1.0 if shape.merged_ranges < 600 or shape.average_range_bytes > 1024 else 1e-6

    setting = told("vllm", times_of({BATCH: lambda _: 1e-3, plan: slow_if_few}, *traffic))[1]
    assert setting.values["MIN_N"] == 600
    assert 1024 < setting.values["THRESHOLD_BYTES"] <= 2048


def test_vllm_has_no_setting_for_saves_alone():
    with pytest.raises(UsageError, match="about loads"):
        list(VLLM().settings(times_of(ALL, counted(64, 4096, Direction.D2H)), SMS))


def test_tried_are_as_many_ctas_and_as_many_threads_as_were_measured():
    measured = {kernel(Variant.BLOCK, grid, 256): wide(grid) for grid in (3, 8)}
    known = {kernel(Variant.BLOCK, ctas, 1024): wide(ctas) for ctas in range(1, 10)}
    found = Ctas(Variant.BLOCK, 1024).known(times_of({**measured, **known}, counted(64, 4096)))
    assert set(found) == set(range(1, 10))  # whatever was measured in CTAs of that size
    mix = Mix.of([counted(64, 4096)])
    source = FormulaSource(mix, {**measured, **known})
    source.plans = frozenset(measured)
    assert Ctas(Variant.BLOCK, 1024).known(Times(mix, source)) == {
        ctas: kernel(Variant.BLOCK, ctas, 1024) for ctas in (2, 3, 8)
    }


def test_kernels_with_anything_else_about_them_stand_for_nothing():
    odd = {kernel(Variant.WARP, 4, 1024, priority=-1): wide(4)}
    assert Ctas(Variant.WARP, 1024).known(times_of(odd, counted(64, 4096))) == {}


def test_what_is_pasted_says_what_was_chosen():
    values = {"pegaflow.transfer_backend": "direct"}
    option, config = shlex.split(ENGINES["pegaflow"].lines(values)[-1])
    assert option == "--kv-transfer-config"
    assert json.loads(config)["kv_connector_extra_config"] == values
    assert ENGINES["vllm"].lines({"NUM_SMS": 8, "MIN_N": 4})[1:] == ("NUM_SMS = 8", "MIN_N = 4")
    for name in ("sglang", "flexkv", "tokenspeed"):
        (setting, *_) = told(name, times_of(ALL, counted(64, 4096)))
        lines = [line for line in ENGINES[name].lines(setting.values) if not line.startswith("#")]
        assert lines == [f"export {key}={value}" for key, value in setting.values.items()]
