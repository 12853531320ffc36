"""Load: the tools that generate it, their outputs, and the generators that run them on hosts (see README.md)."""
