"""The agent: one file that runs on hosts. The controller imports its frames, its operations and kinds of errors."""
