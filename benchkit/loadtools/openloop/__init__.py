"""openloop: its command line and its output."""
