"""Comparisons of stored trials: ratios with intervals and tests, components, claims, capacities, gates. Offline."""
