"""The checks, a file each of the same shape; `benchkit.analysis.verdicts.registry` lists them."""
