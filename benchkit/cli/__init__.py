"""The command line: one thin file per command group. Slow imports are made where they are used."""
