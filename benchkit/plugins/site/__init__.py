"""A static site of a whole store: its scenarios, their histories and their runs."""
