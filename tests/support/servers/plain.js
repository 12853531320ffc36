// A server of one process; the second argument is the number of rounds that each request computes.
const rounds = Number(process.argv[3] ?? 0);
require("node:http").createServer((request, response) => {
  let sum = 0;
  for (let i = 0; i < rounds; i++) sum += Math.sqrt(i);
  response.setHeader("Content-Length", 6);
  response.end(sum < 0 ? "never\n" : "hello\n");
}).listen(Number(process.argv[2]));
