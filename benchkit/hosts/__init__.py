"""Hosts: the inventory, SSH, the agent that runs on each of them, their facts, packages and tuning."""
