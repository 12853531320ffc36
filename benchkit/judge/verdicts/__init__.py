"""Judgements of trials by all checks, the exclusions that follow from them, and summaries of a run."""
