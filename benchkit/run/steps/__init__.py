"""A trial and its steps, a file for each group of them; `benchkit.run.trial` is their order."""
