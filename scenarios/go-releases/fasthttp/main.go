// Command fasthttp answers every request with the same 12 bytes, by fasthttp.
package main

import (
	"log"
	"os"

	"github.com/valyala/fasthttp"
)

func main() {
	body := []byte("Hello World\n")
	answer := func(ctx *fasthttp.RequestCtx) {
		ctx.Response.Header.Set("Connection", "keep-alive")
		ctx.SetContentType("text/plain")
		_, _ = ctx.Write(body) // cannot fail: it is a copy in memory
	}
	server := &fasthttp.Server{Handler: answer, Name: "gophr"}
	log.Fatal(server.ListenAndServe(os.Args[1]))
}
