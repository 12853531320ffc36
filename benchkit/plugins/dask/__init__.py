"""Tables larger than memory, and work on many runs, by Dask and DuckDB."""
