// Command developer is a developer's machine that pulls modules when asked: each `GET /pull` is one `go get` with a clean
// module cache, so that any HTTP load tool can be so many developers at once, and its times are those of pulls.
//
// Before it listens it proves the service: `go env -w` as developers are told, modules of all kinds got twice with clean
// caches and equal checksums, a program built on them and run. Every answer holds the checksum of those checksums, which
// is the same whichever way modules came.
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
	file := flag.String("config", "developer.json", "what the machine is like and what is pulled")
	flag.Parse()
	config, err := readConfig(*file)
	if err != nil {
		return err
	}
	ctx := context.Background()
	developer, err := settle(ctx, config)
	if err != nil {
		return err
	}
	checksum, err := developer.prove(ctx, os.Stdout)
	if err != nil {
		tell(err)
		return err
	}
	fmt.Printf("proved: every pull answers with %s\n", checksum)
	return serve.Run(ctx, *listen, developer.handler(checksum))
}

// handler pulls once for each request.
func (d *Developer) handler(checksum string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pull", func(w http.ResponseWriter, r *http.Request) {
		err := d.pull(r.Context())
		switch {
		case errors.Is(err, context.Canceled): // the asker has gone, or it is time to end
			return
		case err != nil:
			tell(err)
			fmt.Fprintf(os.Stderr, "developer: %v\n", err)
			http.Error(w, err.Error(), http.StatusBadGateway)
		default:
			fmt.Fprintln(w, checksum)
		}
	})
	return mux
}

// tell puts all that the go command said into the log, before the line that it comes to.
func tell(err error) {
	var failed *getError
	if errors.As(err, &failed) {
		fmt.Fprintln(os.Stderr, failed.printed)
	}
}
