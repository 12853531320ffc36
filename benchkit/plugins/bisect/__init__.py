"""benchkit/plugins/bisect."""
