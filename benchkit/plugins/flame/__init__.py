"""Flame graphs of profiles, as figures of a report and as files of `benchkit profile flame`."""
