"""vegeta: its command line and its output."""
