"""Load tools, a module each: the command line, the parser of the output, and the registration `TOOL`, `FORMAT`."""
