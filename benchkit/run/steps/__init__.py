"""The steps of a trial, a module for each group of them; `benchkit.run.trial` has their order."""
