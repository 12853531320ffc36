"""hey: its command line and its output."""
