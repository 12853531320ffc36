"""The checks, a file each of the same shape; `benchkit.judge.registry` lists them."""
