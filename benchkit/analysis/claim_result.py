"""What became of a claim: the published beside the measured."""

from __future__ import annotations

from typing import Literal

from benchkit.analysis.ratio import Ratio
from benchkit.models.base import Frozen

State = Literal["holds", "refuted", "undecided", "not testable here"]


class ClaimResult(Frozen):
    """What became of a claim; `ratios` are those that it is about, each with its interval."""

    text: str
    expectation: str
    expected: tuple[float | None, float | None] = (None, None)
    """The smallest and the largest ratio that it allows; None: no limit on that side."""
    metric: str
    published: float | None
    state: State
    reason: str
    ratios: tuple[Ratio, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be known beside it: each remark on its ratios once."""
        return tuple(dict.fromkeys(remark for ratio in self.ratios for remark in ratio.remarks))

    @property
    def sentence(self) -> str:
        """What became of it, with the figures: `holds: 0.91 [0.88, 0.94]: at least 0.9, published 0.95`."""
        published = "" if self.published is None else f", published {self.published:g}"
        return f"{self.state}: {self.reason}{published}"
