"""Backends for in-house Go modules: git server, vanity imports, module proxies, reverse proxy and developers."""
