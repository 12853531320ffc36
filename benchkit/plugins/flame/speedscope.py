"""Export of profiles to the JSON format of speedscope (www.speedscope.app).

The format is published (github.com/jlfwong/speedscope, src/lib/file-format-spec.ts). Frames are stored once, and a
sampled profile is a list of stacks, outermost frame first, with a weight each. Times have their unit; counts have none.
"""

from __future__ import annotations

from typing import Any

from benchkit.models.profile import PER_SECOND, Profile
from benchkit.plugins.flame.call_tree import weighted_stacks
from benchkit.version import __version__

SCHEMA = "https://www.speedscope.app/file-format-schema.json"

_UNITS = frozenset({*PER_SECOND, "bytes"})


def speedscope(profile: Profile, name: str) -> dict[str, Any]:
    """Return the document: one speedscope profile for each value type of the samples, with the default one selected."""
    profiles = []
    for i, value_type in enumerate(profile.value_types):
        stacks = list(weighted_stacks(profile, i))
        profiles.append(
            {
                "type": "sampled",
                "name": f"{name}: {value_type.kind}",
                "unit": value_type.unit if value_type.unit in _UNITS else "none",
                "startValue": 0,
                "endValue": sum(weight for _, weight in stacks),
                "samples": [stack[::-1] for stack, _ in stacks],
                "weights": [weight for _, weight in stacks],
            }
        )
    return {
        "$schema": SCHEMA,
        "name": name,
        "exporter": f"benchkit@{__version__}",
        "activeProfileIndex": profile.default_value,
        "shared": {
            "frames": [
                {"name": frame.label, **({"file": where} if (where := frame.file or frame.module) else {})}
                for frame in profile.frames
            ]
        },
        "profiles": profiles,
    }
