"""autocannon: its output."""
