// The server of a protocol: HTTP/1.1 or HTTP/2, with or without TLS; and the count of handshakes.

import { constants, createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';

export const PROTOCOLS = ['http1', 'https1', 'h2', 'h2c'];

/** Without timeouts, as in the Go servers: each would be a timer for each connection. */
const NO_TIMEOUTS = { keepAliveTimeout: 0, headersTimeout: 0, requestTimeout: 0 };

/** Return true for HTTP/2. */
export function isHttp2(protocol) {
  return protocol === 'h2' || protocol === 'h2c';
}

/** Return true for HTTP over TLS. */
export function isTls(protocol) {
  return protocol === 'https1' || protocol === 'h2';
}

/** Return the server of `options.protocol` with this listener for requests. */
export function createServer(options, respond) {
  switch (options.protocol) {
    case 'https1': return https.createServer({ ...NO_TIMEOUTS, ...tlsOptions(options) }, respond);
    case 'h2': return http2.createSecureServer(tlsOptions(options), respond);
    case 'h2c': return http2.createServer(respond);
    default: return http.createServer(NO_TIMEOUTS, respond);
  }
}

/** Counts the handshakes of a server, and those that resumed a session. */
export class Handshakes {
  handshakes = 0;
  resumed = 0;

  constructor(server) {
    server.on('secureConnection', (socket) => {
      this.handshakes++;
      if (socket.isSessionReused()) this.resumed++;
    });
  }
}

function tlsOptions({ protocol, tls }) {
  const key = readFileSync(tls.key);
  const version = `TLSv${tls.version}`;
  return {
    key,
    cert: readFileSync(tls.certificate),
    minVersion: version,
    maxVersion: version,
    ALPNProtocols: [isHttp2(protocol) ? 'h2' : 'http/1.1'],
    ...(tls.ciphers === '' ? {} : { ciphers: tls.ciphers }),
    // Workers share the key of tickets, or a client could resume at the worker alone that issued its ticket.
    ...(tls.resumption
      ? { ticketKeys: createHash('sha384').update('tickets').update(key).digest() }
      : { secureOptions: constants.SSL_OP_NO_TICKET }),
  };
}
