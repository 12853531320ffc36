"""Stored runs as comparisons and diagnoses read them: trials, exclusions, findings, counters, workers."""
