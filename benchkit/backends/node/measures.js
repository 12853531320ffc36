// What a worker knows about itself, in seconds, bytes and counts.

import { PerformanceObserver, monitorEventLoopDelay } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';

/** How often the event loop is asked whether it is late. */
const RESOLUTION_MS = 10;

/** Watches this process from now on; costs a timer. */
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

  /** The figures now; the delay of the event loop is that since they were last asked for, null before it is known. */
  read() {
    const intervalNs = this.#delay.percentile(99); // from one look to the next, of which the wait between them is a part
    const known = this.#delay.count > 0;
    this.#delay.reset();
    return {
      heap_bytes: getHeapStatistics().used_heap_size,
      gc_total: this.#collections,
      gc_pause_s: this.#pauseMs / 1e3,
      event_loop_lag_p99_s: known ? Math.max(0, intervalNs / 1e9 - RESOLUTION_MS / 1e3) : null,
    };
  }
}
