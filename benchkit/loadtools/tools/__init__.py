"""Load tools: a package each, with its command line and its parser."""
