"""Results that others measured."""
