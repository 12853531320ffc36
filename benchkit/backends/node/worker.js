// The server of a process; a worker runs it, and sends its metrics to the primary.

import cluster from 'node:cluster';
import process from 'node:process';

import { ListenError, addressOf, backlog, reasonOf } from './address.js';
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
  serve(options).then(
    ({ address, read }) => {
      process.on('message', ({ ask }) => {
        if (ask !== undefined) process.send({ answer: ask, vars: read() });
      });
      process.send({ listening: address });
    },
    (error) => process.send({ failed: error.message }), // no such socket, or the certificate or its key
  );
}

/** Open the server in this process; resolves with its address and a function that reads its metrics. `work`: see Responder. */
export async function serve(options, work = null) {
  const cpus = allowedList();
  const responder = new Responder(options, work);
  const measures = options.admin === null ? null : new Measures();
  const server = createServer(options, responder.respond);
  const tls = isTls(options.protocol) ? new Handshakes(server) : null;
  await new Promise((resolve, reject) => {
    server.once('error', (error) => reject(new ListenError(options.listen, reasonOf(error))));
    server.listen({ ...options.listen, backlog: backlog() }, resolve);
  });
  options.faults.begin();
  return {
    address: addressOf(server),
    read: () => ({ cpus, requests: responder.requests, ...(tls && { tls }), ...measures?.read() }),
  };
}
