"""The agent: one file that runs on hosts, with its own tests. The controller imports only its frames."""
