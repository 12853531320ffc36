"""h2load: its command line and its output."""
