// Command nethttp answers every request with the same 12 bytes, by net/http.
package main

import (
	"log"
	"net/http"
	"os"
)

func main() {
	body := []byte("Hello World\n")
	answer := func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("Server", "gophr")
		header.Set("Connection", "keep-alive")
		header.Set("Content-Type", "text/plain")
		_, _ = w.Write(body) // the client is gone, which the next read reports
	}
	log.Fatal(http.ListenAndServe(os.Args[1], http.HandlerFunc(answer)))
}
