"""Version of benchkit; modules import it from here, as the package itself imports the whole public interface."""

__version__ = "0.1.0"
