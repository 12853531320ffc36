"""Result of a claim: the published figure and the measured one."""

from __future__ import annotations

from typing import Literal

from benchkit.comparison.ratio import Ratio
from benchkit.models.base import Frozen

State = Literal["holds", "refuted", "undecided", "not testable here"]


class ClaimResult(Frozen):
    """Result of a claim; `ratios` are the measured ones, each with its interval."""

    text: str
    expectation: str
    expected: tuple[float | None, float | None] = (None, None)
    """Smallest and largest ratio that the claim allows; None: no limit on that side."""
    metric: str
    published: float | None
    state: State
    reason: str
    ratios: tuple[Ratio, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on its ratios, each once."""
        return tuple(dict.fromkeys(remark for ratio in self.ratios for remark in ratio.remarks))

    @property
    def sentence(self) -> str:
        """State and figures: `holds: 0.91 [0.88, 0.94]: at least 0.9, published 0.95`."""
        published = "" if self.published is None else f", published {self.published:g}"
        return f"{self.state}: {self.reason}{published}"
