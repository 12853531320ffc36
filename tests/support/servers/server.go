// A server of net/http; with `close` it closes each connection after its answer.
package main

import (
	"log"
	"net/http"
	"os"
)

func main() {
	server := &http.Server{Addr: ":" + os.Args[2], Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("hello\n"))
	})}
	server.SetKeepAlivesEnabled(os.Args[1] != "close")
	log.Fatal(server.ListenAndServe())
}
