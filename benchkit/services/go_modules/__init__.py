"""The services of in-house Go modules: git over SSH, vanity imports, module proxies and what stands around them."""
