// CPU affinity of a process. Node cannot set it; taskset of util-linux can.

import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import process from 'node:process';

const THREADS = '/proc/self/task';

/** Return the CPUs that this process may run on, ascending. Throws Error without /proc. */
export function allowed() {
  return listed(listOf('/proc/self/status'));
}

/** Return the CPUs of this process in the kernel's form (`0-2,4`); null without /proc. */
export function allowedList() {
  try {
    return listOf('/proc/self/status');
  } catch {
    return null;
  }
}

/** Pin all threads of this process to a CPU. Throws Error if that fails. */
export function pin(cpu) {
  try {
    execFileSync('taskset', ['-a', '-c', '-p', String(cpu), String(process.pid)], { stdio: 'pipe' });
  } catch (error) {
    throw new Error(`cannot pin to CPU ${cpu}: ${error.stderr?.toString().trim() || error.message}`);
  }
  for (const thread of readdirSync(THREADS)) {
    const found = listOf(`${THREADS}/${thread}/status`);
    if (found !== String(cpu)) throw new Error(`cannot pin to CPU ${cpu}: thread ${thread} may run on ${found}`);
  }
}

/** `0-2,4` → [0, 1, 2, 4]. */
export function listed(text) {
  return text.split(',').flatMap((part) => {
    const [first, last = first] = part.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

function listOf(path) {
  return /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync(path, 'utf8'))[1];
}
