"""k6: its output."""
