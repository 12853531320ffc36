// A server that hands the work of each request to a thread: the first process accepts connections and answers, as
// worker_threads are meant to be used. It has the interface of Workforce.

import process from 'node:process';
import { Worker } from 'node:worker_threads';

import { serve } from './worker.js';

const THREAD = new URL('./thread.js', import.meta.url);

export class Threads {
  size = 1;

  #onEnd;
  #pool = [];
  #next = 0;
  #read = null;

  /** onEnd is called with a message when a thread ends unexpectedly. */
  constructor(onEnd) {
    this.#onEnd = onEnd;
  }

  /** Start the threads, open the server and return its address. Rejects with ListenError. */
  async start(options) {
    for (let i = 0; i < options.workers; i++) this.#pool.push(this.#thread(options.work));
    const { address, read } = await serve(options, () => this.#hand());
    this.#read = read;
    return address;
  }

  /** Return the metrics of this process by its pid; none before it serves. */
  async ask() {
    return this.#read === null ? {} : { [process.pid]: this.#read() };
  }

  #thread(work) {
    const thread = { worker: new Worker(THREAD, { workerData: work }), waiting: [] };
    thread.worker.on('message', (right) => thread.waiting.shift()(right)); // a thread answers in order
    thread.worker.once('exit', (code) => this.#onEnd(`a thread ended with exit code ${code}`));
    return thread;
  }

  /** Let the next thread in turn do the work of a request; resolves with true if its result is right. */
  #hand() {
    const thread = this.#pool[this.#next++ % this.#pool.length];
    return new Promise((resolve) => {
      thread.waiting.push(resolve);
      thread.worker.postMessage(null);
    });
  }
}
