"""Stacks: the services of a cell as steps that deploy, start and probe them."""
