"""What the hosts did: profiles as they are read (`pprof`, `perf_script`) and what they say (`top`, `shares`)."""
