"""Acts on a device: checking, timing, identity, building."""
