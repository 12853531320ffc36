"""How well the statistics do their work, on runs whose truth is known: the figures behind the methods chosen."""
