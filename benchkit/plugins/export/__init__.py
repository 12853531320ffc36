"""Results of a run for other tools."""
