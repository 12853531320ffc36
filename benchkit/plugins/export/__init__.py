"""benchkit/plugins/export."""
