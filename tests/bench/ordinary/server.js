// A server of Node's standard library: reads a body, loops, and answers JSON that varies.
const { randomUUID } = require("node:crypto");
const [port, rounds] = process.argv.slice(2).map(Number);

require("node:http")
  .createServer((request, response) => {
    let length = 0;
    request.on("data", (part) => (length += part.length));
    request.on("end", () => {
      let value = length;
      for (let i = 0; i < rounds; i++) value = (value * 31 + 7) % 1000003;
      const answer = JSON.stringify({ id: randomUUID(), at: Date.now(), value });
      response.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(answer) });
      response.end(answer);
    });
  })
  .listen(port, "127.0.0.1");
