"""Diagnoses: known causes of differences between cells, one file each."""
