"""oha: its output."""
