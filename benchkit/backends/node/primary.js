// The primary process: it starts the workers, opens the sockets, and serves the admin page.

import cluster from 'node:cluster';
import http from 'node:http';
import process from 'node:process';

import { Alone } from './alone.js';
import { ListenError, addressOf, makeRoom, reasonOf, remove } from './address.js';
import { allowed, allowedList, pin } from './affinity.js';
import { sleep } from './faults.js';
import { EXIT_DONE, EXIT_FAILED } from './options.js';
import { Threads } from './threads.js';
import { isTls } from './tls.js';
import { Workforce } from './workforce.js';

/** Time limit for the metrics of a worker; a worker that is busy for longer is missing on the page. */
const ANSWER_MS = 500;

export async function runPrimary(options) {
  const began = Date.now() / 1e3;
  const openSockets = []; // unix sockets to remove at the end
  const end = (code, why) => {
    if (why !== undefined) process.stderr.write(`node: ${why}\n`);
    for (const address of openSockets) remove(address);
    process.exit(code); // the workers end when their channel closes
  };
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => end(EXIT_DONE));
  try {
    const cpus = options.pin === 'none' ? [] : allowed();
    if (options.pin === 'all') pin(cpus[options.workers % cpus.length]);
    cluster.schedulingPolicy = cluster.SCHED_RR;
    // Workers are to be profiled like the primary, which was started by this program (with-perf-map.sh).
    if (process.env.PERF_MAP_LAUNCHER) process.execPath = process.env.PERF_MAP_LAUNCHER;
    const workforce = workforceOf(options, (why) => end(EXIT_FAILED, why));
    if (options.admin !== null) {
      await makeRoom(options.admin);
      const server = await open(options.admin, (request, response) => serveVars(request, response, options, workforce, began));
      openSockets.push(options.admin);
      process.stderr.write(`admin on ${addressOf(server)}\n`);
    }
    await sleep(options.faults.openAfterMs);
    await makeRoom(options.listen);
    const address = await workforce.start(options, cpus);
    openSockets.push(options.listen);
    process.stderr.write(`listening on ${address}\n`);
  } catch (error) {
    end(EXIT_FAILED, error.message);
  }
}

/** Return what serves: this process, alone or with threads, or worker processes. */
function workforceOf(options, onEnd) {
  if (options.workers === 0) return new Alone();
  return options.workerType === 'thread' ? new Threads(onEnd) : new Workforce(onEnd);
}

/** Open a server in this process. Throws ListenError. */
function open(address, listener) {
  return new Promise((resolve, reject) => {
    const server = http.createServer(listener);
    server.once('error', (error) => reject(new ListenError(address, reasonOf(error))));
    server.listen(address, () => resolve(server));
  });
}

/** Serve /debug/vars with the metrics of the workers, under the names of the Go backends for the same metrics. */
async function serveVars(request, response, options, workforce, began) {
  if (request.url !== '/debug/vars') {
    response.writeHead(404).end();
    return;
  }
  const workers = await workforce.ask(ANSWER_MS);
  const all = Object.values(workers);
  const document = {
    backend: 'node',
    // Unknown while one of them does not answer.
    requests: all.length === workforce.size ? all.reduce((sum, worker) => sum + worker.requests, 0) : null,
    started_at: began,
    runtime: { node_version: process.versions.node, v8_version: process.versions.v8 },
    faults: options.faults.given,
    primary: { pid: process.pid, cpus: allowedList() },
    ...(isTls(options.protocol) && { tls: sumOf(all) }),
    workers,
  };
  response.writeHead(200, { 'Content-Type': 'application/json; charset=utf-8' });
  response.end(JSON.stringify(document));
}

/** Return the handshakes of all workers that answered. */
function sumOf(workers) {
  const sum = (name) => workers.reduce((total, { tls }) => total + (tls?.[name] ?? 0), 0);
  return { handshakes: sum('handshakes'), resumed: sum('resumed') };
}
