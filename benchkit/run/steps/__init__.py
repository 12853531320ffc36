"""The steps of a block and of its trials, a module for each group; `benchkit.run.block` has their order."""
