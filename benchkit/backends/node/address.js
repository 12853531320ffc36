// Addresses as -listen and -admin take them, and the sockets behind them.

import { lstatSync, readFileSync, statSync, unlinkSync } from 'node:fs';
import net from 'node:net';
import { dirname } from 'node:path';
import { getSystemErrorMap } from 'node:util';

/** The longest path of a unix socket in bytes (sun_path of unix(7), less its end). */
const MAX_UNIX_PATH = 107;

/** A TCP address, or a unix socket (`unix:/path`), as `{host, port}` or `{path}`. Throws Error saying what is allowed. */
export function parseAddress(text) {
  if (text.startsWith('unix:')) {
    const path = text.slice('unix:'.length);
    if (!path.startsWith('/') || Buffer.byteLength(path) > MAX_UNIX_PATH) {
      throw new Error(`expected unix: and an absolute path of at most ${MAX_UNIX_PATH} bytes`);
    }
    return { path };
  }
  const match = /^(?:\[([^\]]*)\]|([^:]*)):(.*)$/.exec(text);
  if (match === null) throw new Error('expected host:port or unix:/path');
  const [, inBrackets, plain, port] = match;
  if (!/^(0|[1-9][0-9]{0,4})$/.test(port) || Number(port) > 65535) {
    throw new Error(`expected a port from 0 to 65535, found ${JSON.stringify(port)}`);
  }
  return { host: (inBrackets ?? plain) || undefined, port: Number(port) };
}

/** An address as -listen takes it. */
export function written({ host, port, path }) {
  if (path !== undefined) return `unix:${path}`;
  return host?.includes(':') ? `[${host}]:${port}` : `${host ?? ''}:${port}`;
}

/** Where a server listens, as -listen takes it. */
export function addressOf(server) {
  const address = server.address();
  return typeof address === 'string' ? `unix:${address}` : written({ host: address.address, port: address.port });
}

/** The accept queue that the kernel allows at most, which is what Go asks for. */
export function backlog() {
  try {
    return Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'));
  } catch {
    return 511; // no Linux: Node's own
  }
}

/** The error of a socket that cannot be opened, with the system's reason. */
export class ListenError extends Error {
  constructor(address, reason) {
    super(`cannot listen on ${written(address)}: ${reason}`);
  }
}

/** What the system says about an error of its own. */
export function reasonOf(error) {
  return getSystemErrorMap().get(error.errno)?.[1] ?? error.message;
}

/**
 * Make room for a unix socket: one that nobody answers on is left over from a server that was killed. Throws ListenError
 * for a live one, a file of another kind, and a folder that is not there.
 */
export async function makeRoom(address) {
  const { path } = address;
  if (path === undefined) return;
  try {
    statSync(dirname(path));
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined) return;
    if (!found.isSocket()) throw new ListenError(address, 'the file is there and is no socket');
    if (await answers(path)) throw new ListenError(address, 'address already in use');
    unlinkSync(path);
  } catch (error) {
    throw error instanceof ListenError ? error : new ListenError(address, reasonOf(error));
  }
}

/** Take a unix socket out of the file system. */
export function remove({ path }) {
  if (path === undefined) return;
  try {
    unlinkSync(path);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
}

function answers(path) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(path);
    socket.once('connect', () => { socket.destroy(); resolve(true); });
    socket.once('error', (error) => (error.code === 'ECONNREFUSED' ? resolve(false) : reject(error)));
  });
}
