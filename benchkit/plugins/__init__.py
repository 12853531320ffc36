"""Second products, which use the same registries as plugins of other packages. The rest of benchkit imports none."""
