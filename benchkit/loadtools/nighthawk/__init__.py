"""The outputs of Nighthawk."""
