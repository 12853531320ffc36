// Defects made on purpose, to prove that the checks notice them. They are those of ../kit/fault.go, each worker for itself.

import { addBelow } from './work.js';

/** What slow-start adds to a request at the very start, in milliseconds; it falls to nothing in a straight line. */
const SLOW_START_COST_MS = 0.2;

/** Characters of a field name (RFC 9110, 5.6.2). */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

const UNITS_MS = { ns: 1e-6, us: 1e-3, 'µs': 1e-3, ms: 1, s: 1e3, m: 60e3, h: 3600e3 };

/** What becomes of a request. */
export const SERVE = 'serve';
export const FAIL = 'fail';
export const HANG = 'hang';

export class Faults {
  static KINDS =
    'fail:SHARE, hang:SHARE, delay:TIME, lock:TIME, slow-start:TIME, open-after:TIME, body:other, header:NAME=VALUE';

  given = [];
  failShare = 0;
  hangShare = 0;
  delayMs = 0;
  lockMs = 0;
  slowStartMs = 0;
  openAfterMs = 0;
  otherBody = false;
  /** Fields on top of the usual ones: name, value, name, value … */
  headers = [];

  #requests = 0;
  #opened = 0;
  #lock = Promise.resolve();

  /** Whether a fault acts on requests, so that a server without faults pays one comparison. */
  get any() {
    return this.given.length > 0;
  }

  /** Read one -inject-fault. Throws Error saying what is allowed. */
  add(fault) {
    const colon = fault.indexOf(':');
    const kind = colon < 0 ? fault : fault.slice(0, colon);
    const value = colon < 0 ? '' : fault.slice(colon + 1);
    if (kind !== 'header' && this.given.some((given) => given.startsWith(`${kind}:`))) {
      throw new Error(`${kind} is given twice`);
    }
    switch (kind) {
      case 'fail': this.failShare = share(value); break;
      case 'hang': this.hangShare = share(value); break;
      case 'delay': this.delayMs = time(value); break;
      case 'lock': this.lockMs = time(value); break;
      case 'slow-start': this.slowStartMs = time(value); break;
      case 'open-after': this.openAfterMs = time(value); break;
      case 'body':
        if (value !== 'other') throw new Error('expected body:other');
        this.otherBody = true;
        break;
      case 'header': this.headers.push(...field(value)); break;
      default: throw new Error(`expected one of ${Faults.KINDS}`);
    }
    this.given.push(fault);
  }

  /** Mark the instant at which the socket was open. */
  begin() {
    this.#opened = performance.now();
  }

  /** Make a request wait or work as the faults say, and say what else happens to it. */
  async strike() {
    const n = ++this.#requests;
    if (this.delayMs > 0) await sleep(this.delayMs);
    if (this.lockMs > 0) {
      this.#lock = this.#lock.then(() => sleep(this.lockMs));
      await this.#lock;
    }
    if (this.slowStartMs > 0) this.#warmUp();
    if (due(n, this.hangShare)) return HANG;
    return due(n, this.failShare) ? FAIL : SERVE;
  }

  /** Use the CPU like code that is not compiled yet and caches that are still empty. */
  #warmUp() {
    const began = performance.now();
    const cost = SLOW_START_COST_MS * (1 - (began - this.#opened) / this.slowStartMs);
    while (performance.now() - began < cost) addBelow(100);
  }
}

/** Spread a share of events evenly: of any n in a row, share × n are due, give or take one. */
export function due(n, share) {
  return Math.floor(n * share) > Math.floor((n - 1) * share);
}

/** Wait. Timers end up to a millisecond early, which a fault may not. */
export async function sleep(ms) {
  const until = performance.now() + ms;
  for (let left = ms; left > 0; left = until - performance.now()) {
    await new Promise((resolve) => { setTimeout(resolve, Math.max(1, left)); });
  }
}

function share(value) {
  const number = /^[0-9.]+$/.test(value) ? Number(value) : NaN;
  if (!(number > 0 && number <= 1)) throw new Error('expected a share above 0, up to 1');
  return number;
}

/** A time as Go writes it (1m30s, 5ms), in milliseconds. */
function time(value) {
  const parts = [...value.matchAll(/([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h)/gy)];
  const read = parts.map((part) => part[0]).join('');
  const ms = parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS_MS[unit], 0);
  if (read !== value || !(ms > 0)) throw new Error('expected a time above 0, like 5ms');
  return ms;
}

function field(value) {
  const equals = value.indexOf('=');
  const name = value.slice(0, Math.max(0, equals));
  const content = value.slice(equals + 1);
  if (!TOKEN.test(name) || /[^ -~]/.test(content)) {
    throw new Error('expected header:NAME=VALUE, a field name and printable text');
  }
  return [name, content];
}
