"""A trial and its steps, a file for each group of them; `benchkit.pipeline` is their order."""
