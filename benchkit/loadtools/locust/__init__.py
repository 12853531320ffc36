"""The outputs of locust."""
