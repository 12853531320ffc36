"""The three sizes of a scenario."""

from typing import Literal

Scale = Literal["paper", "lab", "smoke"]
"""`paper`: the published figures; `lab`: what a small lab can measure honestly; `smoke`: seconds, for tests."""
