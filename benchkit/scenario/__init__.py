"""Scenarios: from a YAML file to a valid experiment of typed cells, and to the order of its trials.

Nothing here reaches a host.
"""
