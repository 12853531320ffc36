// The primary's view of the workers.

import cluster from 'node:cluster';

import { CPU_VARIABLE } from './worker.js';

export class Workforce {
  /** Number of processes that serve. */
  size = 0;

  #questions = 0;
  #onEnd;

  /** onEnd is called with a message when a worker ends unexpectedly, because results without it would not be comparable. */
  constructor(onEnd) {
    this.#onEnd = onEnd;
  }

  /** Start the workers, wait until all listen, and return their address. Rejects with the error of a worker. */
  start(options, cpus) {
    this.size = options.workers;
    return new Promise((resolve, reject) => {
      let listening = 0;
      for (let i = 0; i < options.workers; i++) {
        const worker = cluster.fork(cpus.length > 0 ? { [CPU_VARIABLE]: cpus[i % cpus.length] } : {});
        worker.on('message', (message) => {
          if (message.failed !== undefined) reject(new Error(message.failed));
          if (message.listening !== undefined && ++listening === options.workers) resolve(message.listening);
        });
        worker.once('exit', (code, signal) => {
          this.#onEnd(`worker ${worker.process.pid} ended with ${signal ?? `exit code ${code}`}`);
        });
      }
    });
  }

  /** Return the metrics of each worker by its pid, without workers that do not answer in this time. */
  async ask(timeoutMs) {
    const question = ++this.#questions;
    const answers = await Promise.all(
      Object.values(cluster.workers ?? {}).map((worker) => answer(worker, question, timeoutMs)),
    );
    return Object.fromEntries(answers.filter(([, vars]) => vars !== null));
  }
}

function answer(worker, question, timeoutMs) {
  return new Promise((resolve) => {
    const finish = (vars) => {
      clearTimeout(timer);
      worker.off('message', onMessage);
      resolve([worker.process.pid, vars]);
    };
    const onMessage = (message) => {
      if (message.answer === question) finish(message.vars);
    };
    const timer = setTimeout(finish, timeoutMs, null);
    worker.on('message', onMessage);
    worker.send({ ask: question }, (error) => {
      if (error) finish(null); // the worker is about to end
    });
  });
}
