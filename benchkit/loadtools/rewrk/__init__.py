"""The outputs of rewrk."""
