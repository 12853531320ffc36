"""Scenarios: YAML → models → cells → schedule. Pure; knows no host, no tool and no backend."""
