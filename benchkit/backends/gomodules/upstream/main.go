// Command upstream serves a folder of modules as a module proxy (https://go.dev/ref/mod#goproxy-protocol); the layout is
// that of the go command's download cache. It replaces a public proxy where there is no internet, and can inject faults.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"benchkit/backends/gomodules/internal/serve"
)

// faults are the faults in responses with zips that can be injected.
var faults = []string{"none", "500", "half"}

func main() { serve.Exit("upstream", run()) }

func run() error {
	listen := flag.String("listen", "127.0.0.1:8083", "address and port")
	root := flag.String("root", ".", "the folder with the modules")
	fault := flag.String("inject-fault", "none", "none; 500: requests for zips fail; half: half of each zip is sent, as if it were complete")
	flag.Parse()
	if !slices.Contains(faults, *fault) {
		return fmt.Errorf("-inject-fault: expected one of %s, not %q", strings.Join(faults, ", "), *fault)
	}
	if found, err := os.Stat(*root); err != nil || !found.IsDir() {
		return fmt.Errorf("-root: %s is not a folder", *root)
	}
	return serve.Run(context.Background(), *listen, serve.Log(os.Stderr, handler(*root, *fault)))
}

func handler(root, fault string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := path.Clean("/" + r.URL.Path)
		file := filepath.Join(root, filepath.FromSlash(at))
		found, err := os.Stat(file)
		if err != nil || !found.Mode().IsRegular() || !strings.Contains(at, "/@") {
			http.Error(w, "not found: "+strings.TrimPrefix(at, "/"), http.StatusNotFound)
			return
		}
		switch {
		case fault == "500" && path.Ext(at) == ".zip":
			http.Error(w, "injected fault", http.StatusInternalServerError)
		case fault == "half" && path.Ext(at) == ".zip":
			serveHalf(w, file)
		default:
			http.ServeFile(w, r, file)
		}
	})
}

// serveHalf sends the first half of a file as if it were complete.
func serveHalf(w http.ResponseWriter, file string) {
	content, err := os.ReadFile(file)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	// An error means that the client has closed the connection.
	_, _ = w.Write(content[:len(content)/2])
}
