"""Telemetry of a host during a trial: a sampler, and one module for each collector.

Every collector has the same interface (`benchkit.agent.watch.collector.Collector`): it is created where its source
exists, and each `sample` maps (metric, instance) to a number. `benchkit.agent.watch.registry` lists the collectors.
"""
