// A server for images, with the faults of containers: `server FAULT [ADDRESS]`.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	fault, address := os.Args[1], ":80"
	if len(os.Args) > 2 {
		address = os.Args[2]
	}
	switch fault {
	case "die":
		fmt.Println("no configuration")
		os.Exit(3)
	case "silent":
		time.Sleep(time.Hour)
	case "memory":
		var kept [][]byte
		for {
			piece := make([]byte, 1<<20)
			for i := range piece {
				piece[i] = 1
			}
			kept = append(kept, piece)
		}
	case "write":
		if err := os.WriteFile("/data/state", []byte("1"), 0o600); err != nil {
			log.Fatal(err)
		}
	case "test":
		if _, err := os.Stat("/data/state"); err != nil {
			log.Fatal(err)
		}
		os.Exit(0)
	case "prepare":
		if err := os.WriteFile("/data/state", []byte(time.Now().String()), 0o600); err != nil {
			log.Fatal(err)
		}
		os.Exit(0)
	}
	http.HandleFunc("/state", func(w http.ResponseWriter, _ *http.Request) {
		state, err := os.ReadFile("/data/state")
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(state)
	})
	http.HandleFunc("/peer", func(w http.ResponseWriter, r *http.Request) {
		answer, err := http.Get("http://" + r.URL.RawQuery)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.WriteHeader(answer.StatusCode)
	})
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Hello World", os.Getenv("WHO")) })
	fmt.Println("listening on", address)
	log.Fatal(http.ListenAndServe(address, nil))
}
