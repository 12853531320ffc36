"""What stored trials say and what they cannot: ratios with intervals and tests, claims, comparisons, gates. Offline."""
