// The command line.

import { availableParallelism, cpus } from 'node:os';

import { parseAddress } from './address.js';
import { Faults } from './faults.js';
import { PROTOCOLS } from './tls.js';
import { parseWork } from './work.js';

/** Exit codes of every backend: ended by a signal; could not serve; invalid flag. */
export const EXIT_DONE = 0;
export const EXIT_FAILED = 1;
export const EXIT_USAGE = 2;

/** The largest -body-size in bytes; the body is kept in memory. */
const MAX_BODY_SIZE = 1 << 30;

/** Maximum number of workers; no host has more CPUs. */
const MAX_WORKERS = 4096;

/** Error of an invalid flag; the message is one line that names it. */
export class UsageError extends Error {}

const FLAGS = {
  listen: {
    help: 'address to serve on: TCP (127.0.0.1:8080) or unix:/path',
    set: (options, value) => { options.listen = parseAddress(value); },
  },
  admin: {
    help: 'address to serve /debug/vars on; off unless given',
    set: (options, value) => { options.admin = parseAddress(value); },
  },
  'body-size': {
    help: 'bytes of body; 12 unless given',
    set: (options, value) => { options.bodySize = whole(value, 0, MAX_BODY_SIZE, 'bytes'); },
  },
  work: {
    help: 'work for each request: none, loop:N to add the numbers below N, or block:Nms to wait',
    set: (options, value) => { options.work = parseWork(value); },
  },
  'inject-fault': {
    help: `for tests: a fault to make on purpose (${Faults.KINDS}); may be repeated`,
    set: (options, value) => options.faults.add(value),
  },
  protocol: {
    help: `protocol to speak: ${PROTOCOLS.join(', ')}`,
    set: (options, value) => { options.protocol = oneOf(value, PROTOCOLS); },
  },
  'tls-certificate': {
    help: 'file with the certificate and its chain (PEM)',
    set: (options, value) => { options.tls.certificate = value; },
  },
  'tls-key': {
    help: 'file with the private key (PEM)',
    set: (options, value) => { options.tls.key = value; },
  },
  'tls-version': {
    help: 'version of TLS, the only one that is negotiated: 1.2 or 1.3',
    set: (options, value) => { options.tls.version = oneOf(value, ['1.2', '1.3']); },
  },
  'tls-ciphers': {
    help: "allowed cipher suites by OpenSSL's names, with colons between them",
    set: (options, value) => { options.tls.ciphers = value; },
  },
  'tls-resumption': {
    help: 'whether to issue session tickets: true or false',
    set: (options, value) => { options.tls.resumption = oneOf(value, ['true', 'false']) === 'true'; },
  },
  workers: {
    help: 'processes that serve, or threads; as many as CPUs unless given; 0: the first process serves',
    set: (options, value) => { options.workers = whole(value, 0, MAX_WORKERS, 'workers'); },
  },
  'worker-type': {
    help: 'process (of the cluster module, which serves) or thread (which does the work of requests)',
    set: (options, value) => { options.workerType = oneOf(value, ['process', 'thread']); },
  },
  pin: {
    help: 'processes that get a CPU each: none, workers, or all (the primary, too)',
    set: (options, value) => { options.pin = oneOf(value, ['none', 'workers', 'all']); },
  },
};

/** Parse arguments into options; null for -help. Throws UsageError. */
export function parseOptions(args) {
  const options = {
    listen: null,
    admin: null,
    bodySize: 12,
    work: parseWork('none'),
    faults: new Faults(),
    protocol: 'http1',
    tls: { certificate: '', key: '', version: '1.3', ciphers: '', resumption: true },
    workers: availableParallelism?.() ?? cpus().length,
    workerType: 'process',
    pin: 'none',
  };
  const left = [...args];
  while (left.length > 0) {
    const argument = left.shift();
    const match = /^--?([a-z][a-z-]*)(?:=(.*))?$/s.exec(argument);
    if (match === null) {
      throw new UsageError(`unexpected argument ${JSON.stringify(argument)}: all options are flags`);
    }
    const [, name, given] = match;
    if (name === 'h' || name === 'help') return null;
    if (!Object.hasOwn(FLAGS, name)) throw new UsageError(`flag provided but not defined: -${name}`);
    const value = given ?? left.shift();
    if (value === undefined) throw new UsageError(`flag needs an argument: -${name}`);
    try {
      FLAGS[name].set(options, value);
    } catch (error) {
      throw new UsageError(`invalid value ${JSON.stringify(value)} for flag -${name}: ${error.message}`);
    }
  }
  if (options.listen === null) {
    throw new UsageError('flag -listen is missing: a TCP address (127.0.0.1:8080) or unix:/path');
  }
  if (options.workerType === 'thread' && options.pin !== 'none') {
    throw new UsageError('flag -pin pins processes: it needs -worker-type process');
  }
  return options;
}

/** Return the text of -help. */
export function usage() {
  const lines = Object.entries(FLAGS).map(([name, flag]) => `  -${name}\n    \t${flag.help}\n`);
  return `Usage of node:\n${lines.join('')}`;
}

function whole(value, least, most, what) {
  const number = /^[0-9]+$/.test(value) ? Number(value) : NaN;
  if (!(number >= least && number <= most)) throw new Error(`expected ${what} from ${least} to ${most}`);
  return number;
}

function oneOf(value, allowed) {
  if (!allowed.includes(value)) throw new Error(`expected ${allowed.join(', ')}`);
  return value;
}
