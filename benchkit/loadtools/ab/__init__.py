"""ab: its command line and its output."""
