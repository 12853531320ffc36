"""Stored results: the journal, raw files, and Parquet tables that are rebuilt from them."""
