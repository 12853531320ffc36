"""A backend, a load tool, a check and a figure for benchkit, each in one file."""
