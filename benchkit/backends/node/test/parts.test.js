import assert from 'node:assert/strict';
import test from 'node:test';

import { listed } from '../affinity.js';
import { parseAddress, written } from '../address.js';
import { Faults, due } from '../faults.js';
import { UsageError, parseOptions } from '../options.js';
import { bodyOf } from '../respond.js';
import { done, parseWork } from '../work.js';

test('bodies', () => {
  assert.equal(bodyOf(0).toString(), '');
  assert.equal(bodyOf(2).toString(), 'He');
  assert.equal(bodyOf(25).toString(), 'Hello World\nHello World\nH');
  assert.equal(bodyOf(12, true).length, 12);
  assert.notDeepEqual(bodyOf(12, true), bodyOf(12));
});

test('work is right', () => {
  for (const text of ['none', 'loop:0', 'loop:1', 'loop:2', 'loop:1000000']) assert.ok(done(parseWork(text)), text);
  const began = performance.now();
  assert.ok(done(parseWork('block:20ms')));
  assert.ok(performance.now() - began >= 19);
  for (const text of ['block:0ms', 'block:1', 'block:1s', 'block:10001ms']) assert.throws(() => parseWork(text), /block:Nms/, text);
  assert.ok(!done({ loop: 10, sum: 44, blockMs: 0 }), 'a wrong sum is accepted');
  assert.ok(Number.isSafeInteger(parseWork('loop:100000000').sum));
});

test('shares are exact', () => {
  for (const share of [0.001, 0.01, 0.1, 1 / 3, 0.5, 0.99, 1]) {
    const count = Array.from({ length: 10_000 }, (_, i) => due(i + 1, share)).filter(Boolean).length;
    assert.ok(Math.abs(count - 10_000 * share) <= 1, `share ${share}: ${count}`);
  }
});

test('times have the form of Go', () => {
  for (const [text, ms] of [['5ms', 5], ['1m30s', 90_000], ['.5s', 500], ['100us', 0.1], ['1.5h', 5_400_000]]) {
    const faults = new Faults();
    faults.add(`delay:${text}`);
    assert.ok(Math.abs(faults.delayMs - ms) < 1e-9, text);
  }
  for (const text of ['5', '0s', '-5ms', 'ms', '5ms later', '']) {
    assert.throws(() => new Faults().add(`delay:${text}`), /expected a time/, text);
  }
});

test('work without requests', () => {
  const costs = (fault, ...idle) => {
    const faults = new Faults();
    faults.add(fault);
    return idle.map((ms) => faults.unaskedCostMs(ms));
  };
  assert.deepEqual(costs('background:0.1', 0, 3_600_000), [1, 1]);
  assert.deepEqual(costs('linger:1s', 0, 10, 999, 1000), [0, 10, 10, 0]);
});

test('addresses', () => {
  for (const text of ['127.0.0.1:8080', '[::1]:80', ':0', 'unix:/run/s']) assert.equal(written(parseAddress(text)), text);
});

test('options', () => {
  const options = parseOptions(['-listen', ':1', '--body-size=1600', '-inject-fault', 'header:A=1', '-inject-fault', 'header:B=']);
  assert.equal(options.bodySize, 1600);
  assert.deepEqual(options.faults.headers, ['A', '1', 'B', '']);
  assert.equal(options.pin, 'none');
  assert.ok(options.workers >= 1);
  assert.equal(parseOptions(['-help']), null);
  for (const [args, named] of [
    [['-workers', '-1'], /-workers/], [['-workers', '1.5'], /-workers/], [['-pin', 'some'], /-pin/],
    [['-worker-type', 'thread', '-pin', 'all'], /-pin/], [['-workers'], /-workers/],
  ]) {
    assert.throws(() => parseOptions(['-listen', ':1', ...args]), (error) => error instanceof UsageError && named.test(error.message));
  }
});

test('lists of CPUs', () => {
  assert.deepEqual(listed('0'), [0]);
  assert.deepEqual(listed('0-2,5,7-8'), [0, 1, 2, 5, 7, 8]);
});
