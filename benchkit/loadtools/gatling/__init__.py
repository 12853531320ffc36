"""The outputs of Gatling."""
