"""The outputs of wrk2."""
