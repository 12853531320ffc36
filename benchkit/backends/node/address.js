// Addresses in the form of -listen and -admin, and their sockets.

import { lstatSync, readFileSync, statSync, unlinkSync } from 'node:fs';
import net from 'node:net';
import { dirname } from 'node:path';
import { getSystemErrorMap } from 'node:util';

/** Maximum length of the path of a unix socket in bytes (sun_path of unix(7), without its end). */
const MAX_UNIX_PATH = 107;

/** Parse a TCP address or a unix socket (`unix:/path`) into `{host, port}` or `{path}`. Throws Error naming the allowed form. */
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

/** Return an address in the form that -listen accepts. */
export function written({ host, port, path }) {
  if (path !== undefined) return `unix:${path}`;
  return host?.includes(':') ? `[${host}]:${port}` : `${host ?? ''}:${port}`;
}

/** Return the address of a server in the form that -listen accepts. */
export function addressOf(server) {
  const address = server.address();
  return typeof address === 'string' ? `unix:${address}` : written({ host: address.address, port: address.port });
}

/** Return the maximum accept queue that the kernel allows, which Go requests too. */
export function backlog() {
  try {
    return Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'));
  } catch {
    return 511; // not Linux: Node's default
  }
}

/** Error of a socket that cannot be opened, with the reason of the system. */
export class ListenError extends Error {
  constructor(address, reason) {
    super(`cannot listen on ${written(address)}: ${reason}`);
  }
}

/** Return the system's message for an error. */
export function reasonOf(error) {
  return getSystemErrorMap().get(error.errno)?.[1] ?? error.message;
}

/**
 * Remove a unix socket that refuses connections, because it is left over from a killed server. Throws ListenError for a
 * live one, a file of another kind, and a missing folder.
 */
export async function makeRoom(address) {
  const { path } = address;
  if (path === undefined) return;
  try {
    statSync(dirname(path));
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined) return;
    if (!found.isSocket()) throw new ListenError(address, 'the file exists and is not a socket');
    if (await answers(path)) throw new ListenError(address, 'address already in use');
    unlinkSync(path);
  } catch (error) {
    throw error instanceof ListenError ? error : new ListenError(address, reasonOf(error));
  }
}

/** Remove the file of a unix socket. */
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
