"""Flame graphs of profiles: the tree of calls (`tree`) as a page of its own (`page`)."""
