"""The outputs of fortio."""
