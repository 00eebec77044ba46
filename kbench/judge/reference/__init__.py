"""The reference: loaded, its inputs drawn, its expected values computed, also in fp64."""
