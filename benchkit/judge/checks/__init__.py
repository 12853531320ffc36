"""The checks; `benchkit.judge.checks.registry` lists them in the order in which their findings are shown."""
