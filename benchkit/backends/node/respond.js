// The response of study 1, which is the same in all servers (../kit/response.go).

import { FAIL, HANG } from './faults.js';
import { isHttp2 } from './tls.js';
import { done } from './work.js';

const HELLO = 'Hello World\n';

/** Different body of the same length, which a check of the bytes must detect. */
const OTHER = 'Other Words\n';

/** Return the body of this size: the text repeated and truncated. */
export function bodyOf(size, other = false) {
  return Buffer.alloc(size, other ? OTHER : HELLO);
}

/** Responds to requests and counts them. */
export class Responder {
  requests = 0;

  #options;
  #body;
  #staying;
  #closing;
  #plain = null;

  constructor(options) {
    const { bodySize, faults } = options;
    this.#options = options;
    this.#body = bodyOf(bodySize, faults.otherBody);
    const rest = [
      ['Content-Length', String(bodySize)], ['Content-Type', 'text/plain'], ['Server', 'gophr'],
    ].flat().concat(faults.headers);
    // Node adds the date. HTTP/2 has no field Connection (RFC 9113, 8.2.2).
    if (isHttp2(options.protocol)) this.#plain = rest;
    this.#staying = ['Connection', 'keep-alive', ...rest];
    this.#closing = ['Connection', 'close', ...rest];
  }

  /** Listener for the requests of an http.Server. */
  respond = (request, response) => {
    if (this.#options.faults.any) {
      this.#respondLater(request, response);
    } else {
      this.#answer(request, response, 200);
    }
  };

  async #respondLater(request, response) {
    const strike = await this.#options.faults.strike();
    if (strike !== HANG) this.#answer(request, response, strike === FAIL ? 500 : 200);
  }

  #answer(request, response, status) {
    const right = done(this.#options.work);
    response.writeHead(right ? status : 500, this.#plain ?? (keeps(request, response) ? this.#staying : this.#closing));
    response.end(this.#body);
    this.requests++;
  }
}

/** Return true if the connection stays open after the response. */
function keeps(request, response) {
  if (request.httpVersionMinor > 0) return response.shouldKeepAlive;
  return /^\s*keep-alive\s*$/i.test(request.headers.connection ?? ''); // HTTP/1.0, which Node would close
}
