// The response of study 1, which is the same in all servers (../kit/response.go).

import { FAIL, HANG, SERVE } from './faults.js';
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
  #work;
  #body;
  #staying;
  #closing;
  #plain = null;

  /** work does the work of a request elsewhere and resolves with true if its result is right; null: it is done here. */
  constructor(options, work = null) {
    const { bodySize, faults } = options;
    this.#options = options;
    this.#work = work;
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
    if (this.#options.faults.any || this.#work !== null) {
      this.#respondLater(request, response);
    } else {
      this.#answer(request, response, done(this.#options.work));
    }
  };

  async #respondLater(request, response) {
    const { faults, work } = this.#options;
    const strike = faults.any ? await faults.strike() : SERVE;
    if (strike === HANG) return;
    const right = this.#work === null ? done(work) : await this.#work();
    this.#answer(request, response, right && strike !== FAIL);
  }

  #answer(request, response, right) {
    response.writeHead(right ? 200 : 500, this.#plain ?? (keeps(request, response) ? this.#staying : this.#closing));
    response.end(this.#body);
    this.requests++;
  }
}

/** Return true if the connection stays open after the response. */
function keeps(request, response) {
  if (request.httpVersionMinor > 0) return response.shouldKeepAlive;
  return /^\s*keep-alive\s*$/i.test(request.headers.connection ?? ''); // HTTP/1.0, which Node would close
}
