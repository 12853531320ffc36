// Command developer acts as a developer's machine: each `GET /pull` runs one `go get` with a clean module cache. An HTTP
// load tool thus acts as many developers at once, and its response times are the times of pulls.
//
// Before it listens it verifies the service: it runs `go env -w` with the settings for developers, downloads modules of all
// kinds twice into clean caches, compares their checksums, and builds and runs a program that uses them. Every response has
// the checksum of these checksums, which does not depend on the way in which the modules were downloaded.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"

	"benchkit/backends/gomodules/internal/serve"
)

func main() { serve.Exit("developer", run()) }

func run() error {
	listen := flag.String("listen", "127.0.0.1:9090", "address and port")
	file := flag.String("config", "developer.json", "settings of the machine and the module to pull")
	flag.Parse()
	config, err := readConfig(*file)
	if err != nil {
		return err
	}
	ctx := context.Background()
	developer, err := setUp(ctx, config)
	if err != nil {
		return err
	}
	checksum, err := developer.prove(ctx, os.Stdout)
	if err != nil {
		logOutput(err)
		return err
	}
	fmt.Printf("proved: every pull answers with %s\n", checksum)
	return serve.Run(ctx, *listen, developer.handler(checksum))
}

// handler pulls the module once for each request.
func (d *Developer) handler(checksum string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pull", func(w http.ResponseWriter, r *http.Request) {
		err := d.pull(r.Context())
		switch {
		case errors.Is(err, context.Canceled): // the client has closed the connection, or the process ends
			return
		case err != nil:
			logOutput(err)
			fmt.Fprintf(os.Stderr, "developer: %v\n", err)
			http.Error(w, err.Error(), http.StatusBadGateway)
		default:
			fmt.Fprintln(w, checksum)
		}
	})
	return mux
}

// logOutput writes the whole output of the go command to the log, before the line that explains it.
func logOutput(err error) {
	var failed *getError
	if errors.As(err, &failed) {
		fmt.Fprintln(os.Stderr, failed.printed)
	}
}
