// Injected defects, with which tests prove that the checks detect them. They are those of ../kit/fault.go, in each worker.

import { addBelow } from './work.js';

/** Extra CPU time of a request at the start of slow-start, in milliseconds; it decreases linearly to zero. */
const SLOW_START_COST_MS = 0.2;

/** Time after which background and linger decide again how much they work, in milliseconds. */
const TICK_MS = 10;

/** Characters of a field name (RFC 9110, 5.6.2). */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

const UNITS_MS = { ns: 1e-6, us: 1e-3, 'µs': 1e-3, ms: 1, s: 1e3, m: 60e3, h: 3600e3 };

/** Effect of the faults on a request. */
export const SERVE = 'serve';
export const FAIL = 'fail';
export const HANG = 'hang';

export class Faults {
  static KINDS =
    'fail:SHARE, hang:SHARE, delay:TIME, lock:TIME, queue:TIME, slow-start:TIME, open-after:TIME, background:SHARE, '
    + 'linger:TIME, body:other, header:NAME=VALUE';

  given = [];
  failShare = 0;
  hangShare = 0;
  delayMs = 0;
  lockMs = 0;
  queueMs = 0;
  slowStartMs = 0;
  openAfterMs = 0;
  background = 0;
  lingerMs = 0;
  otherBody = false;
  /** Additional header fields: name, value, name, value … */
  headers = [];

  #requests = 0;
  #opened = 0;
  #latest = -Infinity;
  #lock = Promise.resolve();
  /** End of the service of the last request in the queue. */
  #queueEnds = 0;

  /** True if there are faults; a server without faults only makes this comparison. */
  get any() {
    return this.given.length > 0;
  }

  /** Parse the value of one -inject-fault. Throws Error naming the allowed values. */
  add(fault) {
    const colon = fault.indexOf(':');
    const kind = colon < 0 ? fault : fault.slice(0, colon);
    const value = colon < 0 ? '' : fault.slice(colon + 1);
    if (kind !== 'header' && this.given.some((given) => given.startsWith(`${kind}:`))) {
      throw new Error(`${kind} is given more than once`);
    }
    switch (kind) {
      case 'fail': this.failShare = share(value); break;
      case 'hang': this.hangShare = share(value); break;
      case 'delay': this.delayMs = time(value); break;
      case 'lock': this.lockMs = time(value); break;
      case 'queue': this.queueMs = time(value); break;
      case 'slow-start': this.slowStartMs = time(value); break;
      case 'open-after': this.openAfterMs = time(value); break;
      case 'background': this.background = share(value); break;
      case 'linger': this.lingerMs = time(value); break;
      case 'body':
        if (value !== 'other') throw new Error('expected body:other');
        this.otherBody = true;
        break;
      case 'header': this.headers.push(...field(value)); break;
      default: throw new Error(`expected one of ${Faults.KINDS}`);
    }
    this.given.push(fault);
  }

  /** Record the time at which the socket was opened, and start the work without requests. */
  begin() {
    this.#opened = performance.now();
    if (this.background > 0 || this.lingerMs > 0) setInterval(() => this.#workUnasked(), TICK_MS).unref();
  }

  /** Return the CPU time that background and linger use in a tick, this time after the latest request. */
  unaskedCostMs(idleMs) {
    return idleMs >= TICK_MS && idleMs < this.lingerMs ? TICK_MS : this.background * TICK_MS;
  }

  #workUnasked() {
    const began = performance.now();
    const cost = this.unaskedCostMs(began - this.#latest);
    while (performance.now() - began < cost) addBelow(100);
  }

  /** Apply delays and extra work to a request, and return how to answer it. */
  async strike() {
    const n = ++this.#requests;
    if (this.delayMs > 0) await sleep(this.delayMs);
    if (this.lockMs > 0) {
      this.#lock = this.#lock.then(() => sleep(this.lockMs));
      await this.#lock;
    }
    if (this.queueMs > 0) {
      this.#queueEnds = Math.max(performance.now(), this.#queueEnds) + this.queueMs;
      await sleep(Math.ceil(this.#queueEnds - performance.now()));
    }
    if (this.slowStartMs > 0) this.#warmUp();
    this.#latest = performance.now();
    if (due(n, this.hangShare)) return HANG;
    return due(n, this.failShare) ? FAIL : SERVE;
  }

  /** Use CPU time like code that is not compiled yet and caches that are still empty. */
  #warmUp() {
    const began = performance.now();
    const cost = SLOW_START_COST_MS * (1 - (began - this.#opened) / this.slowStartMs);
    while (performance.now() - began < cost) addBelow(100);
  }
}

/** Spread a share of events evenly: of any n consecutive events, share × n are due, rounded up or down. */
export function due(n, share) {
  return Math.floor(n * share) > Math.floor((n - 1) * share);
}

/** Wait at least this time; a timer alone may fire up to a millisecond early. */
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

/** Parse a time in Go's form (1m30s, 5ms) into milliseconds. */
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
