// A server of Node without Content-Length: it answers in two chunks.
require("node:http").createServer((request, response) => {
  response.write("hel");
  response.end("lo\n");
}).listen(Number(process.argv[2]), "0.0.0.0", 1024);
