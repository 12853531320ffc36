"""The outputs of zrk."""
