"""Load tools: one file each, with its command line and its parser."""
