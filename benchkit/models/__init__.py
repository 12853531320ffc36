"""Frozen models that all packages share, in seconds, bytes, counts and shares of one; absent values are `None`."""
