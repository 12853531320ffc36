// The server under test, as a process.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../main.js', import.meta.url));

/** A server that listens; `said` is what it printed, `ended` a promise of [exit code, signal]. */
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

/** The program on these arguments. */
export function run(t, args, { main = MAIN, env = process.env } = {}) {
  const child = spawn(process.execPath, [main, ...args], { stdio: ['ignore', 'ignore', 'pipe'], env });
  t.after(() => child.kill('SIGKILL'));
  return { process: child, said: [], ended: once(child, 'exit') };
}

/** Everything that a program prints on arguments with which it does not serve, and its exit code. */
export async function refused(t, args, options) {
  const { process: child, ended } = run(t, args, options);
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => { said += text; });
  const [code] = await ended;
  return { code, said };
}

/** The status and the body at an address, over a connection of its own. */
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

/** What a server tells about itself. */
export async function vars(server) {
  return JSON.parse((await get(server.admin, '/debug/vars')).body);
}
