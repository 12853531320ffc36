"""Statistics of samples: one logarithm for each cell and block, intervals, tests, and the pairs that are compared."""
