"""Evidence of stored trials; `checks` reads it, and `verdicts` follow from the findings of checks."""
