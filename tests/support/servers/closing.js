// A server of Node that closes each connection after its answer, with a header that says so (`says`), or without it.
const says = process.argv[2] === "says" ? "Connection: close\r\n" : "";
require("node:net").createServer((socket) => {
  socket.on("error", () => {});
  socket.once("data", () => socket.end(`HTTP/1.1 200 OK\r\n${says}Content-Length: 6\r\n\r\nhello\n`));
}).listen(Number(process.argv[3]), "0.0.0.0", 1024);
