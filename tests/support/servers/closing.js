// A server of Node that closes each connection after its answer, without a header that says so.
require("node:net").createServer((socket) => {
  socket.on("error", () => {});
  socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"));
}).listen(Number(process.argv[2]), "0.0.0.0", 1024);
