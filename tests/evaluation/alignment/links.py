"""Alignments written as sets of links."""

import numpy as np

Links = set[tuple[int, int]]


def to_array(links: Links, shape: tuple[int, int]) -> np.ndarray:
    """An alignment "T S" with these links (source, target)."""
    array = np.zeros(shape, dtype=bool)
    for src, tgt in links:
        array[tgt, src] = True
    return array


def draw_points(seed: int, shape: tuple[int, int]) -> Links:
    """Points of a grid, of a random density; drawing them from a seed is faster than by hypothesis."""
    rng = np.random.default_rng(seed)
    return {(int(i), int(j)) for i, j in np.argwhere(rng.random(shape) < rng.random())}
