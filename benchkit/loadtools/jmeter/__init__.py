"""The outputs of JMeter."""
