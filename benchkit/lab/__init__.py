"""Hosts on this machine, each behind a real OpenSSH server; `benchkit.lab.lab` has the functions to use.

This file imports nothing, because the init processes of a lab load only the standard library.
"""
