import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { describe, test } from 'node:test';

import { listed } from '../affinity.js';
import { get, refused, start, vars } from './server.js';

const cpusOf = (pid) => listed(/^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
const HERE = cpusOf('self');

describe('a cluster', { concurrency: 4 }, () => {
  test('requests are counted by worker, and all of them', async (t) => {
    const server = await start(t, ['-workers', '2']);
    const before = await vars(server);
    assert.equal(Object.keys(before.workers).length, 2);
    assert.equal(before.requests, 0);
    for (let i = 0; i < 10; i++) assert.equal((await get(server.address)).body, 'Hello World\n');
    const after = await vars(server);
    assert.equal(after.requests, 10);
    // Connections are distributed in turn.
    assert.deepEqual(Object.values(after.workers).map((worker) => worker.requests), [5, 5]);
    assert.equal(after.backend, 'node');
    assert.equal(after.runtime.node_version, process.versions.node);
    for (const worker of Object.values(after.workers)) {
      assert.ok(worker.heap_bytes > 1e5);
      assert.ok(Number.isInteger(worker.gc_total) && worker.gc_pause_s >= 0);
    }
  });

  test('garbage collections are counted', async (t) => {
    const server = await start(t, ['-workers', '1']);
    const collections = async () => Object.values((await vars(server)).workers)[0].gc_total;
    const before = await collections();
    for (let i = 0; i < 3000 && await collections() === before; i += 100) {
      await Promise.all(Array.from({ length: 100 }, () => get(server.address)));
    }
    assert.ok(await collections() > before);
  });

  test('processes are pinned to their CPUs', async (t) => {
    for (const [pin, primaryCpus] of [
      ['none', HERE], ['workers', HERE], ['all', [HERE[1 % HERE.length]]],
    ]) {
      const server = await start(t, ['-workers', '1', '-pin', pin]);
      const { primary, workers } = await vars(server);
      const [[pid, worker]] = Object.entries(workers);
      assert.deepEqual(cpusOf(pid), pin === 'none' ? HERE : [HERE[0]], pin);
      assert.deepEqual(listed(worker.cpus), cpusOf(pid));
      assert.deepEqual(cpusOf(primary.pid), primaryCpus, pin);
      assert.deepEqual(listed(primary.cpus), primaryCpus);
    }
  });

  test('more workers than CPUs share them in turn', async (t) => {
    const server = await start(t, ['-workers', String(HERE.length + 1), '-pin', 'workers']);
    const { workers } = await vars(server);
    const on = Object.values(workers).map((worker) => Number(worker.cpus)).sort();
    assert.deepEqual(on, [...HERE, HERE[0]].sort());
  });

  test('pinning without taskset is an error', async (t) => {
    const { code, said } = await refused(t, ['-listen', '127.0.0.1:0', '-workers', '1', '-pin', 'workers'], {
      env: { ...process.env, PATH: '/nowhere' },
    });
    assert.equal(code, 1);
    assert.match(said, /^node: cannot pin to CPU \d+: .*taskset.*\n$/);
  });

  test('threads do the work of requests, which one process answers', async (t) => {
    const server = await start(t, ['-workers', '2', '-worker-type', 'thread', '-work', 'loop:1000']);
    const [pid] = Object.keys((await vars(server)).workers).map(Number);
    assert.equal(pid, server.process.pid);
    const got = await Promise.all(Array.from({ length: 20 }, () => get(server.address)));
    assert.deepEqual(new Set(got.map(({ status, body }) => `${status} ${body}`)), new Set(['200 Hello World\n']));
    assert.equal((await vars(server)).requests, 20);
  });

  test('a thread that blocks does not block the others', async (t) => {
    const server = await start(t, ['-workers', '8', '-worker-type', 'thread', '-work', 'block:500ms']);
    const answered = async () => {
      await get(server.address);
      return performance.now();
    };
    const times = (await Promise.all(Array.from({ length: 8 }, answered))).sort((a, b) => a - b);
    const gaps = times.slice(1).map((time, i) => time - times[i]);
    assert.ok(Math.min(...gaps) < 250, `one after the other: answers ${gaps} ms apart`);
  });

  test('a server that loses a worker ends with a message', async (t) => {
    const server = await start(t, ['-workers', '2']);
    const [pid] = Object.keys((await vars(server)).workers);
    process.kill(Number(pid), 'SIGKILL');
    assert.deepEqual(await server.ended, [1, null]);
  });

  test('workers end with their primary', async (t) => {
    const server = await start(t, ['-workers', '2']);
    const pids = Object.keys((await vars(server)).workers).map(Number);
    server.process.kill('SIGKILL');
    await server.ended;
    const lives = (pid) => {
      try {
        return !/^State:\s*Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
      } catch {
        return false;
      }
    };
    const deadline = performance.now() + 60_000;
    while (pids.some(lives) && performance.now() < deadline) {
      await new Promise((resolve) => { setTimeout(resolve, 5); });
    }
    assert.deepEqual(pids.filter(lives), []);
  });
});
