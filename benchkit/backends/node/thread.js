// A thread of threads.js: it does the work of a request for each message.

import { parentPort, workerData } from 'node:worker_threads';

import { done } from './work.js';

parentPort.on('message', () => parentPort.postMessage(done(workerData)));
