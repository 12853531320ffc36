"""The answer: what the run shows, in sentences, whether they can be believed, and the figure of ratios."""

from __future__ import annotations

from dataclasses import dataclass

from benchkit.comparison.answer import Trust
from benchkit.report.sections.figures import RATIOS, FigureContent, figure_content
from benchkit.report.sections.section import Material, Section


@dataclass(frozen=True)
class AnswerContent:
    """The sentences, and the forest plot of ratios; None where no ratio has an interval."""

    sentences: tuple[str, ...]
    trust: Trust
    trust_sentence: str
    figure: FigureContent | None


def build(material: Material) -> AnswerContent:
    """Return the answer of the run."""
    answer = material.run.answer
    drawn = [drawing for drawing in material.drawings if drawing.figure.name == RATIOS]
    return AnswerContent(
        sentences=answer.sentences,
        trust=answer.trust,
        trust_sentence=answer.trust_sentence,
        figure=figure_content(drawn[0], material.run) if drawn else None,
    )


SECTION = Section("answer", "Answer", "answer.html.j2", build)
