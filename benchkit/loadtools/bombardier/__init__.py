"""bombardier: its output."""
