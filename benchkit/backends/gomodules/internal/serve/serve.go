// Package serve is the common part of these programs: one HTTP listener, and one log line for each request.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// grace is the time for requests in flight to end after a signal.
const grace = 2 * time.Second

// Run serves handler on addr until a signal ends the process. The context of background work is cancelled then.
func Run(ctx context.Context, addr string, handler http.Handler) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := server.Shutdown(late); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// Exit ends the process: with 0 and no output without an error, else with 1 and the error on one line.
func Exit(name string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Log writes one line to out after each request: duration, status, bytes, method, path and query.
func Log(out io.Writer, handler http.Handler) http.Handler {
	var mutex sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &answer{ResponseWriter: w, status: http.StatusOK}
		handler.ServeHTTP(seen, r)
		mutex.Lock()
		defer mutex.Unlock()
		fmt.Fprintf(out, "%.3fs %d %d %s %q\n", time.Since(began).Seconds(), seen.status, seen.bytes, r.Method, r.URL.RequestURI())
	})
}

// answer records status and size of a response.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(content []byte) (int, error) {
	n, err := a.ResponseWriter.Write(content)
	a.bytes += int64(n)
	return n, err
}

// Unwrap gives http.ResponseController access to the wrapped writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
