"""What everybody speaks: frozen models in seconds, bytes, counts and shares of one; absent is `None`."""
