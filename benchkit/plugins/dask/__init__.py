"""benchkit/plugins/dask."""
