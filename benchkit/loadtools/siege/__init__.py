"""siege: its command line and its output."""
