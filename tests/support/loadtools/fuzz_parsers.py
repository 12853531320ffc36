"""Coverage-guided fuzzing of the parsers: `python tests/support/loadtools/fuzz_parsers.py [RUNS]`.

It mutates the recorded outputs with words that the tools print. It checks that a parser accepts a text or refuses it
with ParseError, and that no figure of a result is negative, infinite or NaN. It needs atheris, which is not in the
lock.
"""

from __future__ import annotations

import importlib
import math
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT, TESTS

FIXTURES = TESTS / "fixtures" / "load"
MAX_BYTES = 8192

sys.path.insert(0, str(ROOT))
atheris = importlib.import_module("atheris")

with atheris.instrument_imports(include=["benchkit.loadtools"]):
    from benchkit.errors import ParseError
    from benchkit.loadtools.registry import TOOLS
    from benchkit.loadtools.text import decode
    from benchkit.models.load_result import LoadResult

NAMES = sorted(TOOLS)


def one_input(data: bytes) -> None:
    """Parse the data after the first byte with the tool of that number."""
    if not data:
        return
    tool = TOOLS[NAMES[data[0] % len(NAMES)]]
    try:
        result = tool.parse(decode(data[1:]))
    except ParseError:
        return
    for name, value in _figures(result):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{tool.name}: {name} is {value}")


def _figures(result: LoadResult) -> Iterator[tuple[str, float]]:
    plain = result.model_dump()
    latency = plain.pop("latency")
    groups = (plain, plain.pop("errors"), plain.pop("status"), latency.pop("percentiles"), latency)
    for group in groups:
        yield from ((name, value) for name, value in group.items() if isinstance(value, int | float))


def _seeds(folder: Path) -> None:
    """Write the recorded outputs as seeds, each after the byte with the number of its tool."""
    for path in FIXTURES.glob("*/*.txt"):
        number = NAMES.index(path.parent.name)
        (folder / f"{path.parent.name}-{path.stem}").write_bytes(bytes([number]) + path.read_bytes()[: MAX_BYTES - 1])


def _words(file: Path) -> None:
    """Write a libFuzzer dictionary of the words in the recorded outputs."""
    words = {word for path in FIXTURES.glob("*/*.txt") for word in re.findall(r"[A-Za-z%/:\"]{3,20}", path.read_text())}
    file.write_text("".join('"{}"\n'.format(word.replace('"', '\\"')) for word in sorted(words)))


def main() -> None:
    """Fuzz for the number of runs given, or until interrupted."""
    with tempfile.TemporaryDirectory() as name:
        corpus, words = Path(name, "corpus"), Path(name, "words")
        corpus.mkdir()
        _seeds(corpus)
        _words(words)
        runs = [f"-runs={sys.argv[1]}"] if len(sys.argv) > 1 else []
        options = [str(corpus), f"-dict={words}", f"-max_len={MAX_BYTES}", "-timeout=5", "-print_final_stats=1", *runs]
        atheris.Setup([sys.argv[0], *options], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
