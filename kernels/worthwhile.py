"""When staging cannot win, told from the shape of a transfer alone."""

from typing import Final

from pega_tune.kernels.shape import Direction, TransferShape

DMA_COMMAND_S: Final = 2.4e-6
"""Seconds of one DMA command, submission included (H200; h200-lab, row `direct`: 2.4 us each)."""

LAUNCH_S: Final = 11e-6
"""Seconds of uploading descriptors and launching a kernel (H200; design, section 3: 8 to 11 us)."""

ONE_CTA_BYTES_PER_S: Final = {
    Direction.H2D: 14.6 * 2**30,
    Direction.D2H: 30.1 * 2**30,
    Direction.BOTH: 27.1 * 2**30,
}
"""What one CTA moves of scattered 4 KiB ranges, both directions counted (H200; h200-lab, `warp 1 x 256`)."""


def staging_loses(shape: TransferShape) -> str:
    """Why no objective would choose a staged plan for this shape; empty if one might, or if host runs are unknown.

    Staging has a DMA command per host run, `direct` one per merged range and nothing else, so staging loses if

        (merged ranges - host runs) x 2.4 us <= 11 us

    And the smallest copy kernel, one CTA, has less on the SMs and ends first if all commands together take longer than
    it does, which is so for host runs below some 37 KiB (h2d), 76 KiB (d2h) or 68 KiB (both) on average:

        directions x host runs x 2.4 us >= bytes of all directions / rate of one CTA

    The second one compares with the gentlest kernel on purpose: larger grids are faster, but stall decode for longer
    than staging does.
    """
    runs = shape.host_runs
    if runs is None:
        return ""
    if (shape.merged_ranges - runs) * DMA_COMMAND_S <= LAUNCH_S:
        return f"direct moves {shape.merged_ranges} ranges with hardly more commands than {runs} host runs need"
    commands_s = len(shape.direction.legs) * runs * DMA_COMMAND_S
    if commands_s >= shape.moved_bytes / ONE_CTA_BYTES_PER_S[shape.direction]:
        average = shape.total_bytes // runs
        return f"DMA commands for host runs of {average} bytes on average take longer than one CTA of the copy kernel"
    return ""


def worthwhile(shape: TransferShape) -> bool:
    """Whether a staged plan may win for this shape; see `staging_loses`."""
    return not staging_loses(shape)
