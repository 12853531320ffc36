// A server on Node's cluster module: a primary process, and workers that serve. It has the flags of the Go backends
// (../kit/options.go) and sends the same bytes; its own flags are at the end of options.js.

import cluster from 'node:cluster';
import process from 'node:process';

import { EXIT_DONE, EXIT_USAGE, UsageError, parseOptions, usage } from './options.js';
import { runPrimary } from './primary.js';
import { runWorker } from './worker.js';

try {
  const options = parseOptions(process.argv.slice(2));
  if (options === null) {
    process.stdout.write(usage());
    process.exit(EXIT_DONE);
  }
  await (cluster.isPrimary ? runPrimary(options) : runWorker(options));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`node: ${error.message}\n`);
  process.exit(EXIT_USAGE);
}
