// Answers every request with 12 bytes, after adding 0 … 999999 where it is told to: `node server.js HOST PORT none|loop`.
// Plain enough for Node 10.
"use strict";

const http = require("http");

const [host, port, work] = process.argv.slice(2);
const body = Buffer.from("Hello World\n");
let wanted = 0; // sums that differ from what arithmetic says, so that no compiler may drop the loop

function add() {
  let sum = 0;
  for (let i = 0; i < 1000000; i += 1) sum += i;
  if (sum !== 499999500000) wanted += 1;
}

const server = http.createServer((request, response) => {
  if (work === "loop") add();
  response.writeHead(wanted === 0 ? 200 : 500, { "Content-Type": "text/plain", "Content-Length": body.length });
  response.end(body);
});
server.keepAliveTimeout = 0; // as in Node 10's time: a connection stays open until the client closes it
server.listen(Number(port), host);
