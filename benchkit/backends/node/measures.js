// Metrics of a worker, in seconds, bytes and counts.

import { PerformanceObserver, monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';

/** Interval at which the delay of the event loop is sampled. */
const RESOLUTION_MS = 10;

/** Measures this process from now on; needs one timer. */
export class Measures {
  #delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  #collections = 0;
  #pauseMs = 0;

  constructor() {
    this.#delay.enable();
    const observer = new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        this.#collections++;
        this.#pauseMs += entry.duration;
      }
    });
    observer.observe({ entryTypes: ['gc'] });
  }

  /** Return the present values. The delay of the event loop is that since the last call, null before the first sample. */
  read() {
    const intervalNs = this.#delay.percentile(99); // time between two samples, including the interval
    const known = this.#delay.count > 0;
    this.#delay.reset();
    return {
      heap_bytes: getHeapStatistics().used_heap_size,
      gc_total: this.#collections,
      gc_pause_s: this.#pauseMs / 1e3,
      event_loop_active_s: performance.eventLoopUtilization().active / 1e3,
      event_loop_lag_p99_s: known ? Math.max(0, intervalNs / 1e9 - RESOLUTION_MS / 1e3) : null,
    };
  }
}
