"""Frozen models that all packages share, in seconds, bytes, counts and shares of one; absent values are `None`."""

from typing import Literal

Scale = Literal["paper", "lab", "smoke"]
"""`paper`: the published figures; `lab`: what a small lab can measure honestly; `smoke`: seconds, for tests."""
