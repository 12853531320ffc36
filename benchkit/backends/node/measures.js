// Metrics of a worker, in seconds, bytes and counts.

import { PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';

/** Measures this process from now on. */
export class Measures {
  #collections = 0;
  #pauseMs = 0;

  constructor() {
    const observer = new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        this.#collections++;
        this.#pauseMs += entry.duration;
      }
    });
    observer.observe({ entryTypes: ['gc'] });
  }

  /** Return the present values. */
  read() {
    return {
      heap_bytes: getHeapStatistics().used_heap_size,
      gc_total: this.#collections,
      gc_pause_s: this.#pauseMs / 1e3,
    };
  }
}
