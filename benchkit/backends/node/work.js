// CPU work of a request in addition to its response.

/** The largest N of -work loop:N: the sum of the numbers below it is exact in a double. */
const MAX_LOOP = 100_000_000;

/** Parse `none` or `loop:N` into `{loop, sum}`. Throws Error naming the allowed values. */
export function parseWork(value) {
  if (value === 'none') return { loop: 0, sum: 0 };
  const match = /^loop:([0-9]+)$/.exec(value);
  const loop = match === null ? NaN : Number(match[1]);
  if (!(loop <= MAX_LOOP)) throw new Error(`expected none, or loop:N with N from 0 to ${MAX_LOOP}`);
  return { loop, sum: (loop * (loop - 1)) / 2 };
}

/** Do the work and return true if its result is right, which it always is; the compiler cannot remove a result in use. */
export function done(work) {
  return work.loop === 0 || addBelow(work.loop) === work.sum;
}

/** Add the numbers 0 … n-1, one at a time. */
export function addBelow(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += i;
  return sum;
}
