// Command upstream serves a folder of modules as a module proxy (https://go.dev/ref/mod#goproxy-protocol); the layout is
// that of the go command's download cache. It replaces a public proxy where there is no internet.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"benchkit/backends/gomodules/internal/serve"
)

func main() { serve.Exit("upstream", run()) }

func run() error {
	listen := flag.String("listen", "127.0.0.1:8083", "address and port")
	root := flag.String("root", ".", "the folder with the modules")
	flag.Parse()
	if found, err := os.Stat(*root); err != nil || !found.IsDir() {
		return fmt.Errorf("-root: %s is not a folder", *root)
	}
	return serve.Run(context.Background(), *listen, serve.Log(os.Stderr, handler(*root)))
}

func handler(root string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := path.Clean("/" + r.URL.Path)
		file := filepath.Join(root, filepath.FromSlash(at))
		found, err := os.Stat(file)
		if err != nil || !found.Mode().IsRegular() || !strings.Contains(at, "/@") {
			http.Error(w, "not found: "+strings.TrimPrefix(at, "/"), http.StatusNotFound)
			return
		}
		http.ServeFile(w, r, file)
	})
}
