"""Tags of a run, as typed."""

from __future__ import annotations

from collections.abc import Sequence

from benchkit.errors import InputError
from benchkit.models.run import Tag, TagValue
from benchkit.validation import is_valid_name


def parse_tags(texts: Sequence[str]) -> dict[str, str]:
    """Return tags as typed, `key=value` each. Raises InputError."""
    tags: dict[str, str] = {}
    for text in texts:
        key, _, value = text.partition("=")
        if not (is_valid_name(key, Tag) and is_valid_name(value, TagValue)):
            raise InputError(
                "not of the form key=value",
                where=f"--tag {text}",
                why="a key has up to 64 letters, digits, dots, dashes and underscores, a letter first; a value is one line",
                hint="as in --tag version=1.4",
            )
        if key in tags:
            raise InputError("the tag is given twice", where=f"--tag {text}", why=f"it is {tags[key]!r} already")
        tags[key] = value
    return tags
