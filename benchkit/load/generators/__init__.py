"""Generators: the processes of load tools on the load hosts, started together and merged."""
