"""Checks of stored trials, a file each, and the verdicts that follow from their findings."""
