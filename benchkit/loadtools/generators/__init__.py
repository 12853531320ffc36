"""Generators: the processes of load tools on the load hosts. `generator` plans them (pure), `execution` runs them."""
