"""The three sizes that a scenario comes in."""

from typing import Literal

Scale = Literal["paper", "lab", "smoke"]
"""`paper`: the published figures; `lab`: what a small lab does honestly; `smoke`: seconds, for tests."""
