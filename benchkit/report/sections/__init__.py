"""Sections of a report: a file each of the same shape, listed in `registry` in the order of reading."""
