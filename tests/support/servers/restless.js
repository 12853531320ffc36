// The same server, which also works for a quarter of its core while it has no requests, as a JVM's compiler does.
require("./plain.js");
setInterval(() => {
  const until = process.hrtime.bigint() + 5_000_000n;
  while (process.hrtime.bigint() < until);
}, 20);
