"""Reports of stored runs: figures and one HTML file. The package reaches no host, and alone uses matplotlib."""
