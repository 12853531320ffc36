"""benchkit/plugins/foreign."""
