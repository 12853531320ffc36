// A server of net/http with one known cause of slowness: main CAUSE PORT.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

const hello = "Hello World\n"

var (
	lock sync.Mutex
	sink []byte
	sum  int
)

// work does what a cause adds to a request.
func work(cause string) {
	switch cause {
	case "loop":
		for i := range 40_000 {
			sum += i * sum
		}
	case "calls":
		for range 10 {
			syscall.Getppid()
		}
	case "allocate":
		sink = make([]byte, 64<<10)
	case "lock":
		lock.Lock()
		time.Sleep(100 * time.Microsecond)
		lock.Unlock()
	case "wait":
		time.Sleep(time.Millisecond)
	}
}

func main() {
	cause := os.Args[1]
	logged := os.Stderr
	if cause == "log" {
		file, err := os.CreateTemp("/var/cache", "access-*.log") // on a disk, also in a lab
		if err != nil {
			log.Fatal(err)
		}
		if err := os.Remove(file.Name()); err != nil {
			log.Fatal(err)
		}
		logged = file
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		work(cause)
		if cause == "log" {
			fmt.Fprintf(logged, "%s %s %s 200 12 %q\n", r.RemoteAddr, r.Method, r.URL, r.UserAgent())
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(hello)))
		if cause == "pieces" || cause == "nagle" {
			_, _ = w.Write([]byte(hello[:6]))
			w.(http.Flusher).Flush()
			_, _ = w.Write([]byte(hello[6:]))
			return
		}
		_, _ = w.Write([]byte(hello))
	})}
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if cause == "nagle" {
			_ = conn.(*net.TCPConn).SetNoDelay(false)
		}
		return ctx
	}
	listener, err := net.Listen("tcp", ":"+os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(listener))
}
