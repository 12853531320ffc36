"""The history of a scenario: its series over the runs of a store, and their shifts."""
