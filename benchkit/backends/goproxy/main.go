// Command goproxy is a module proxy on the library github.com/goproxy/goproxy: it gets private modules from their
// repositories, all others from an upstream proxy, and caches both on disk.
//
// It has the flags of goproxy 2.0.7 (github.com/goproxyio), which it can replace. Unlike that one, it checks the responses
// of its upstream before it caches them.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/goproxy/goproxy"
)

// grace is the time for requests in flight to end after a signal.
const grace = 2 * time.Second

// cacheFolder is the folder of modules in the -cacheDir of goproxy 2.0.7: the layout of the go command's own cache.
var cacheFolder = filepath.Join("pkg", "mod", "cache", "download")

func main() {
	log.SetFlags(0)
	log.SetPrefix("goproxy: ")
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:8081", "address and port")
	upstream := flag.String("proxy", "off", "URL of the proxy of all other modules")
	private := flag.String("exclude", "", "path patterns of private modules, with commas between them, as in GOPRIVATE")
	cache := flag.String("cacheDir", "", "folder of the cache")
	workers := flag.Int("workers", 0, "maximum number of concurrent go commands; 0: no limit")
	flag.Parse()
	if *cache == "" {
		return errors.New("-cacheDir is missing")
	}
	handler, err := handler(*upstream, *private, *cache, *workers)
	if err != nil {
		return err
	}
	return serve(*listen, handler)
}

// handler serves modules and logs each request.
func handler(upstream, private, cache string, workers int) (http.Handler, error) {
	scratch := filepath.Join(cache, "scratch")
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, err
	}
	proxy := &goproxy.Goproxy{
		GoBinEnv: append(os.Environ(),
			"GOPROXY="+upstream,
			"GOPRIVATE="+private,
			"GOSUMDB=off", // developers verify checksums with the public database themselves
			"GOPATH="+filepath.Join(cache, "gopath"),
		),
		GoBinMaxWorkers: workers,
		Cacher:          goproxy.DirCacher(filepath.Join(cache, cacheFolder)),
		TempDir:         scratch,
		ErrorLogger:     log.Default(),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &answer{ResponseWriter: w, status: http.StatusOK}
		proxy.ServeHTTP(seen, r)
		log.Printf("%.3fs %d %s", time.Since(began).Seconds(), seen.status, r.URL)
	}), nil
}

func serve(addr string, handler http.Handler) error {
	signalled, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-signalled.Done():
	}
	late, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := server.Shutdown(late); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// answer records the status of a response.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController access to the wrapped writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
