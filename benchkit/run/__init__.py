"""Runs: the queue of trials, the steps of a block, the recorder, the judge, and resumption; `run` is read first."""
