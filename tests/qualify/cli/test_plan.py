"""`benchkit plan`: the design that a run takes on these hosts, and why."""

from __future__ import annotations

SCENARIO = """\
name: fixed
title: Two servers that listen on one port of their own
question: Which cells are up together?
stacks:
  one: {entry: app, services: {app: {backend: nethttp, listen: 18080}}}
  two: {entry: app, services: {app: {backend: command, listen: 19000, run: python3 -m http.server 19000}}}
  three: {entry: app, services: {app: {backend: command, listen: 19000, run: python3 -u -m http.server 19000}}}
factors: {stack: [one, two, three]}
load: {tool: h2load, connections: 4, duration_s: 1, warmup_s: 0.1}
design: sliced
blocks: 2
"""
