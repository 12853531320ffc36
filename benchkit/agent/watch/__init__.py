"""What a host does while it is measured: a sampler, and a file for each thing that it looks at.

Every collector has the same shape (`benchkit.agent.watch.collector.Collector`): it is made where its source exists, and each
`sample` is a mapping of (metric, instance) to a number. `benchkit.agent.watch.registry` lists them.
"""
