"""wrk: its command line and its output."""
