"""Figures of a run: a file each of the same shape, listed in `registry`."""
