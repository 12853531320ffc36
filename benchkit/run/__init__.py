"""The parts of a run, a file each: its manifest, its book, its hosts, a trial with its retries, and taking it up again."""
