"""Hosts: the inventory, SSH, the agent that runs on each host, its facts, packages and tuning."""
