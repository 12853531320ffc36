"""Statistics and verdicts over stored trials: ratios with intervals and tests, claims, comparisons, gates. Offline."""
