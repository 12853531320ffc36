// The server under test, as a process.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../main.js', import.meta.url));

/** Start a server and wait until it listens; `said` has its output, `ended` is a promise of [exit code, signal]. */
export async function start(t, args, { main = MAIN, env = process.env } = {}) {
  const server = run(t, ['-listen', '127.0.0.1:0', '-admin', '127.0.0.1:0', ...args], { main, env });
  for await (const line of createInterface(server.process.stderr)) {
    server.said.push(line);
    const [, kind, address] = /^(admin|listening) on (.*)$/.exec(line) ?? [];
    if (kind === 'admin') server.admin = address;
    if (kind === 'listening') {
      server.address = address;
      return server;
    }
  }
  throw new Error(`it does not listen: ${server.said.join(' / ')}`);
}

/** Start the program with these arguments. */
export function run(t, args, { main = MAIN, env = process.env } = {}) {
  const child = spawn(process.execPath, [main, ...args], { stdio: ['ignore', 'ignore', 'pipe'], env });
  t.after(() => child.kill('SIGKILL'));
  return { process: child, said: [], ended: once(child, 'exit') };
}

/** Return the output and exit code of the program with arguments that it rejects. */
export async function refused(t, args, options) {
  const { process: child, ended } = run(t, args, options);
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => { said += text; });
  const [code] = await ended;
  return { code, said };
}

/** Return status and body of a response, over a new connection. */
export function get(address, path = '/') {
  return new Promise((resolve, reject) => {
    const request = http.get(`http://${address}${path}`, { agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text) => { body += text; });
      response.on('end', () => resolve({ status: response.statusCode, body }));
    });
    request.on('error', reject);
  });
}

/** Return the metrics of a server. */
export async function vars(server) {
  return JSON.parse((await get(server.admin, '/debug/vars')).body);
}
