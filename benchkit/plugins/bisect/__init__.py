"""The search for the commit that made a server slower."""
