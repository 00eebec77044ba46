"""Theoretical occupancy of a kernel, by the rules of NVIDIA's `cuda_occupancy.h` and the CUDA C++ Programming Guide.

Registers are allocated to warps in units of 256, and warps in groups of 4. Shared memory is allocated in units of 128
bytes, with 1 KiB a block for the system from compute capability 8.0 on.
"""

from dataclasses import dataclass

from kbench.core.trace import DeviceActivity, DeviceShape

WARP = 32
REGISTER_UNIT = 256
WARP_GROUP = 4
SHARED_UNIT = 128
RESERVED_SHARED_BYTES = 1024
BLOCKS_PER_SM = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24, (12, 0): 24, (12, 1): 24}
"""By compute capability; 32 for the others from 7.0 on, among them 8.0, 9.0 (Hopper) and 10.0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Blocks and warps of a kernel that one SM holds at a time."""

    share: float
    """Share of the SM's warps, from 0 to 1."""
    limiter: str
    """`registers`, `shared memory`, `block size`, `blocks` or `grid`; empty where all warps fit."""
    blocks_per_sm: int
    waves: float
    """Blocks of the grid over those that the device holds at a time."""


def occupancy(launch: DeviceActivity, shape: DeviceShape) -> Occupancy | None:
    """Compute the occupancy of a launch; None where it has no shape or cannot run at all as described."""
    if min(launch.blocks, launch.threads, shape.sms, shape.threads_per_sm) <= 0:
        return None
    warps, most_warps = -(-launch.threads // WARP), shape.threads_per_sm // WARP
    most_blocks = BLOCKS_PER_SM.get((shape.major, shape.minor), 32)
    room = {"block size": most_warps // warps, "blocks": most_blocks}
    if launch.registers:
        per_warp = -(-launch.registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
        fitting = shape.registers_per_sm // per_warp // WARP_GROUP * WARP_GROUP
        room["registers"] = fitting // warps
    if launch.shared_bytes:
        reserved = RESERVED_SHARED_BYTES if shape.major >= 8 else 0
        per_block = -(-(launch.shared_bytes + reserved) // SHARED_UNIT) * SHARED_UNIT
        room["shared memory"] = shape.shared_bytes_per_sm // per_block
    blocks_per_sm = min(room.values())
    if blocks_per_sm < 1:
        return None
    limiter = min(room, key=lambda name: room[name])
    waves = launch.blocks / (blocks_per_sm * shape.sms)
    spread = -(-launch.blocks // shape.sms)
    if spread < blocks_per_sm:  # the grid is over before any SM is full
        blocks_per_sm, limiter = spread, "grid"
    share = min(1.0, blocks_per_sm * warps / most_warps)
    return Occupancy(share=share, limiter="" if share >= 1 else limiter, blocks_per_sm=blocks_per_sm, waves=waves)
