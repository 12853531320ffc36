"""Runs: the plan, the loop over its trials (`loop`), the steps of a trial (`trial`), the recorder, and resumption."""
