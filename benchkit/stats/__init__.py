"""benchkit/stats."""
