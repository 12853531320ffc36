// A server with classes of requests; the delay of /search is its second argument.
package main

import (
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	delay, err := time.ParseDuration(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		size := 500
		switch {
		case strings.HasPrefix(r.URL.Path, "/items/"):
			size = 200 + len(r.URL.Path)
		case r.URL.Path == "/search":
			time.Sleep(delay)
			size = 900
		case r.URL.Path == "/gone":
			w.WriteHeader(http.StatusNotFound)
			size = 20
		}
		_, _ = w.Write([]byte(strings.Repeat("a", size)))
	})
	log.Fatal(http.ListenAndServe(":"+os.Args[1], nil))
}
