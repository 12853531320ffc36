"""The version of benchkit, importable from every layer: the package itself imports the whole public interface."""

__version__ = "0.1.0"
