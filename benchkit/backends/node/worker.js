// A worker: it serves requests, and sends its metrics to the primary.

import cluster from 'node:cluster';
import process from 'node:process';

import { addressOf, backlog, reasonOf } from './address.js';
import { allowedList, pin } from './affinity.js';
import { Measures } from './measures.js';
import { EXIT_DONE } from './options.js';
import { Responder } from './respond.js';
import { Handshakes, createServer, isTls } from './tls.js';

/** Environment variable with the CPU of a worker. */
export const CPU_VARIABLE = 'BENCHKIT_NODE_CPU';

export function runWorker(options) {
  // A signal to stop the server goes to all its processes; workers ignore it and end with the primary.
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => {});
  cluster.worker.on('error', () => process.exit(EXIT_DONE)); // the channel is closed: the primary has ended
  if (process.env[CPU_VARIABLE] !== undefined) {
    try {
      pin(Number(process.env[CPU_VARIABLE]));
    } catch (error) {
      process.send({ failed: error.message });
      return;
    }
  }
  const cpus = allowedList();
  const responder = new Responder(options);
  const measures = options.admin === null ? null : new Measures();
  let server;
  try {
    server = createServer(options, responder.respond);
  } catch (error) {
    process.send({ failed: error.message }); // the certificate or its key
    return;
  }
  const tls = isTls(options.protocol) ? new Handshakes(server) : null;
  server.once('error', (error) => process.send({ notOpen: reasonOf(error) }));
  server.listen({ ...options.listen, backlog: backlog() }, () => {
    options.faults.begin();
    process.send({ listening: addressOf(server) });
  });
  process.on('message', ({ ask }) => {
    if (ask !== undefined) process.send({ answer: ask, vars: { cpus, requests: responder.requests, ...(tls && { tls }), ...measures?.read() } });
  });
}
