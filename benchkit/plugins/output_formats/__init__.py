"""The outputs of load tools that benchkit reads and does not drive."""
