"""CPU profiles: readers (`pprof`, `perf_script`) and evaluation (`top`, `shares`)."""
