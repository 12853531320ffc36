// Work of a request in addition to its response.

/** The largest N of -work loop:N: the sum of the numbers below it is exact in a double. */
const MAX_LOOP = 100_000_000;

/** The largest N of -work block:Nms. */
const MAX_BLOCK = 10_000;

const nobody = new Int32Array(new SharedArrayBuffer(4));

/** Parse `none`, `loop:N` or `block:Nms` into `{loop, sum, blockMs}`. Throws Error naming the allowed values. */
export function parseWork(value) {
  if (value === 'none') return { loop: 0, sum: 0, blockMs: 0 };
  const block = /^block:([0-9]+)ms$/.exec(value);
  if (value.startsWith('block:')) {
    const blockMs = block === null ? 0 : Number(block[1]);
    if (!(blockMs >= 1 && blockMs <= MAX_BLOCK)) throw new Error(`expected block:Nms with N from 1 to ${MAX_BLOCK}`);
    return { loop: 0, sum: 0, blockMs };
  }
  const match = /^loop:([0-9]+)$/.exec(value);
  const loop = match === null ? NaN : Number(match[1]);
  if (!(loop <= MAX_LOOP)) throw new Error(`expected none, block:Nms, or loop:N with N from 0 to ${MAX_LOOP}`);
  return { loop, sum: (loop * (loop - 1)) / 2, blockMs: 0 };
}

/** Do the work and return true if its result is right, which it always is; the compiler cannot remove a result in use. */
export function done(work) {
  if (work.blockMs > 0) Atomics.wait(nobody, 0, 0, work.blockMs); // blocks the thread, as a synchronous call does
  return work.loop === 0 || addBelow(work.loop) === work.sum;
}

/** Add the numbers 0 … n-1, one at a time. */
export function addBelow(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += i;
  return sum;
}
