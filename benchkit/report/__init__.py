"""Stored runs as people look at them: figures and one HTML file. Reaches no host; only here is matplotlib known."""
