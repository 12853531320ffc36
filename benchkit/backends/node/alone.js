// A server without workers: the first process serves. It has the interface of Workforce.

import process from 'node:process';

import { serve } from './worker.js';

export class Alone {
  size = 1;

  #read = null;

  /** Open the server and return its address. Rejects with ListenError. */
  async start(options) {
    const { address, read } = await serve(options);
    this.#read = read;
    return address;
  }

  /** Return the metrics of this process by its pid; none before it serves. */
  async ask() {
    return this.#read === null ? {} : { [process.pid]: this.#read() };
  }
}
