"""What the second pass of a sweep found, by shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pega_tune.autotune.cli.output import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pega_tune.autotune.sweep.confirming import Loss

_HEADINGS = ("DIRECTION", "RANGES", "OF", "CHOICE", "LOSS", "BEST OF THE SECOND PASS")


def confirm_document(losses: Sequence[Loss]) -> dict[str, Any]:
    """The losses and their mean, as fractions of the best plan's time; `loss` is null where nothing could be timed."""
    from pega_tune.autotune.sweep.confirming import mean_loss

    return {"mean_loss": mean_loss(losses) if losses else None, "shapes": [_shape(loss) for loss in losses]}


def confirm_lines(losses: Sequence[Loss]) -> Iterator[str]:
    """The same for people; nothing without a second pass."""
    from pega_tune.autotune.sweep.confirming import mean_loss

    if losses:
        yield ""
        yield f"second pass, in a fresh process: {mean_loss(losses):+.1%} lost on average"
        yield from table(_HEADINGS, (_row(loss) for loss in losses))


def _row(loss: Loss) -> tuple[str, ...]:
    return (
        str(loss.shape.direction),
        str(loss.shape.merged_ranges),
        f"{loss.shape.average_range_bytes} B",
        loss.plan.key,
        "-" if loss.estimate is None else f"{loss.estimate:+.1%}",
        "-" if loss.best is None else loss.best.key,
    )


def _shape(loss: Loss) -> dict[str, Any]:
    return {
        "direction": str(loss.shape.direction),
        "ranges": loss.shape.merged_ranges,
        "bytes": loss.shape.total_bytes,
        "plan": loss.plan.to_json(),
        "best": None if loss.best is None else loss.best.to_json(),
        "loss": loss.estimate,
        "loss_low": loss.low,
        "agrees": not loss.certain,
    }
