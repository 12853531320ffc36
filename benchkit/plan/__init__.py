"""The plan of a run on its hosts. Planning reads the state of hosts and changes nothing; `run` executes the plan."""
