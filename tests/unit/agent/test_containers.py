"""Removal of what an engine was used for, where the engine's answer and the state of the host differ."""

from __future__ import annotations

import pytest

from benchkit.agent.containers import remove_containers

RECORD = {
    "engine": "true",  # a program that every host has: the test gives its answers
    "label": "benchkit.owner=test",
    "parent": "benchkit-test",
    "images": ["localhost/app:v1"],
    "had_rules": True,
}


@pytest.mark.parametrize(
    ("afterwards", "failures"),
    [
        ("gone", []),
        ("there", ["the image localhost/app:v1 could not be removed: layer not known"]),
    ],
)
def test_an_image_counts_as_removed_by_what_is_there_afterwards(afterwards: str, failures: list[str]) -> None:
    inspected = iter(["there", afterwards])

    def run(argv: list[str], _within_s: float) -> tuple[int, str]:
        """Answer as an engine that fails to remove an image."""
        if argv[1:3] == ["image", "inspect"]:
            return (0, "") if next(inspected) == "there" else (125, "no such image")
        return (125, "layer not known") if argv[1:3] == ["image", "rm"] else (0, "")

    assert remove_containers(RECORD, run) == failures
