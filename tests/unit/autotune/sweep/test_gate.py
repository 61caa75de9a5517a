import pytest

from pega_tune.autotune.sweep.gate import judge
from pega_tune.autotune.sweep.policy import compile_policy
from pega_tune.autotune.sweep.shapes import Lack, Shortage
from pega_tune.kernels.plan import PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.records import BlockFlag, BlockRecord
from tests.helpers.sweeps import block, cell

WARP = kernel(Variant.WARP, 2, 1024)


def _blocks(*flags: BlockFlag) -> list[BlockRecord]:
    one_way = [block(TransferShape(16, 4096, d), [cell(direct(), [1e-5] * 7)], *flags) for d in Direction.BOTH.legs]
    both = TransferShape(16, 4096, Direction.BOTH)
    return [*one_way, block(both, [cell(PlanPair(direct(), direct()), [2e-5] * 7)])]


def test_a_clean_sweep_is_published() -> None:
    blocks = _blocks(BlockFlag.NO_TELEMETRY)
    verdict = judge(compile_policy(blocks).policy, blocks, ())
    assert (verdict.state, verdict.reasons) == (ProfileState.PUBLISHED, ())


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        (BlockFlag.THROTTLED, "2 of 3 blocks were measured while the device was throttled"),
        (BlockFlag.CONTENDED, "2 of 3 blocks were measured while other processes used the device"),
        (BlockFlag.SERIALISED, "2 of 3 blocks were measured where transfers and decode do not run at once"),
        (BlockFlag.SLOW_LINK, "2 of 3 blocks were measured over a link slower than the device's"),
    ],
)
def test_disturbed_blocks_make_a_draft(flag: BlockFlag, words: str) -> None:
    blocks = _blocks(flag)
    verdict = judge(compile_policy(blocks).policy, blocks, ())
    assert (verdict.state, verdict.reasons) == (ProfileState.DRAFT, (words,))


def test_wrong_bytes_make_a_draft() -> None:
    blocks = _blocks()
    wrong = block(
        TransferShape(4, 4096, Direction.H2D), [cell(WARP, [], status="mismatch"), cell(direct(), [1e-5] * 7)]
    )
    verdict = judge(compile_policy([*blocks, wrong]).policy, [*blocks, wrong], ())
    assert (verdict.state, verdict.reasons) == (ProfileState.DRAFT, (f"{WARP.key} moved wrong bytes",))


def test_a_plan_without_proof_makes_a_draft() -> None:
    blocks = _blocks()
    unproven = compile_policy([*blocks, block(TransferShape(1, 64, Direction.H2D), [cell(WARP, [1e-6] * 7)])])
    verdict = judge(unproven.policy, blocks, ())
    assert (verdict.state, verdict.reasons) == (ProfileState.DRAFT, (f"{WARP.key} was never verified h2d",))


def test_a_direction_without_plans_makes_a_draft() -> None:
    blocks = _blocks()[:2]
    verdict = judge(compile_policy(blocks).policy, blocks, ())
    assert (verdict.state, verdict.reasons) == (ProfileState.DRAFT, ("no plan could be measured both",))


def test_shapes_without_memory_are_told_and_keep_nothing_from_being_published() -> None:
    blocks = _blocks()
    lacks = (Lack("pinned host memory", "--max-host-memory", 203 << 20, 1), Lack("device memory", "-d", 1, 0))
    short = Shortage(3, 12, 32 << 20, lacks)
    verdict = judge(compile_policy(blocks).policy, blocks, (), short)
    reason = (
        "3 of 12 shapes, from 32MiB on, were left out: "
        "all of them need 203MiB of pinned host memory (--max-host-memory) and 1MiB of device memory (-d)"
    )
    assert (verdict.state, verdict.reasons) == (ProfileState.PUBLISHED, (reason,))
    verdict = judge(compile_policy(blocks).policy, blocks, ("out of time",), short)
    assert (verdict.state, verdict.reasons) == (ProfileState.PARTIAL, ("out of time", reason))


def test_missing_blocks_make_a_part_and_come_first() -> None:
    blocks = _blocks(BlockFlag.THROTTLED)
    verdict = judge(compile_policy(blocks).policy, blocks, ("out of time",))
    assert verdict.state is ProfileState.PARTIAL
    assert verdict.reasons[0] == "out of time"
    assert len(verdict.reasons) == 2
