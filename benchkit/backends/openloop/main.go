// Command openloop sends HTTP requests when a schedule says, whatever is unanswered, and writes a row for each.
//
//	openloop -address 10.0.0.2:8080 -requests requests.json -connections 64 -stages 50000x100us > rows
//
// A request that is due waits for one of the connections. Its row says how late the program was with it, so that times
// count from when it was due, and the program's own delay is known. With -due the instants are those of a file. With
// -duration in place of both every connection sends its next request when the last one is answered. Rows go to stdout as
// record.go has them, a summary to stderr.
//
// It speaks HTTP/1.1, and with -protocol HTTP/1.1 over TLS (https1), HTTP/2 (h2) or HTTP/3 (h3), strictly. A new connection
// resumes the session of the one before it, where the server lets it.
//
//	openloop probe -address 10.0.0.2:8443 -protocol h2 -ca ca.pem < requests.json
//
// sends each request once and prints what came back: see probe.go.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
	"time"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

// garbage is GOGC: a heap of few megabytes would else be collected many times a second.
const garbage = 1000

func main() {
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		if err := runProbe(os.Args[2:]); err != nil {
			fmt.Fprintf(os.Stderr, "openloop probe: %s\n", err)
			os.Exit(exitFailed)
		}
		return
	}
	var load load
	flag.StringVar(&load.address, "address", "", "`host:port` of the server")
	file := flag.String("requests", "", "JSON `file` with the requests, sent in turn: the method and base64 of the bytes of each")
	flag.IntVar(&load.connections, "connections", 1, "connections")
	flag.Var(&load.stages, "stages", "`schedule`: numbers of requests and the time between two, as 500x2ms,1000x1ms")
	due := flag.String("due", "", "JSON `file` with the instants of requests in nanoseconds, in place of -stages")
	order := flag.String("order", "", "JSON `file` with the places in -requests of the requests to send, again and again")
	flag.DurationVar(&load.duration, "duration", 0, "time of a closed loop, in place of -stages")
	poisson := flag.Bool("poisson", false, "requests of a stage arrive at random, as those of many users")
	seed := flag.Uint64("seed", rand.Uint64(), "of random arrivals; by default another one each time. The summary has it")
	flag.BoolVar(&load.keepalive, "keepalive", true, "keep connections open")
	flag.DurationVar(&load.timeout, "timeout", 30*time.Second, "time after which a request that is due has failed")
	flag.DurationVar(&load.lead, "lead", 0, "least time from the start to the first request; connections are opened in it")
	flag.StringVar(&load.protocol, "protocol", http1, "`protocol`: http1, https1, h2 or h3")
	flag.IntVar(&load.streams, "streams", 1, "requests in flight on each connection of HTTP/2 and HTTP/3")
	authorities := flag.String("ca", "", "PEM `file` with the certificates that verify the server's")
	name := flag.String("server-name", "", "`name` to ask for in the handshake and to verify; by default the host of the address")
	flag.BoolVar(&load.isFull, "full-handshakes", false, "resume no session, whatever the server offers")
	flag.BoolVar(&load.isEarly, "early-data", false, "HTTP/3: send first requests within resumed handshakes (0-RTT)")
	rows := flag.Bool("rows", true, "write a row for each request")
	flag.Parse()
	ways := 0
	for _, isGiven := range []bool{len(load.stages) > 0, load.duration > 0, *due != ""} {
		if isGiven {
			ways++
		}
	}
	if ways != 1 || load.connections < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "openloop: needs one of -stages, -due and -duration, at least one connection, and flags alone")
		os.Exit(exitUsage)
	}
	debug.SetGCPercent(garbage)
	recorder := &recorder{out: io.Discard, summary: summary{Version: 1, Errors: map[string]int64{}}}
	if *rows {
		recorder.out = os.Stdout
	}
	if *poisson {
		load.random = rand.New(rand.NewPCG(*seed, 0))
		recorder.summary.Seed = seed
	}
	if err := errors.Join(read(*file, &load.requests), read(*due, &load.due), read(*order, &load.order)); err != nil {
		fmt.Fprintf(os.Stderr, "openloop: %s\n", err)
		os.Exit(exitFailed)
	}
	if err := secure(&load, *name, *authorities, recorder); err != nil {
		fmt.Fprintf(os.Stderr, "openloop: %s\n", err)
		os.Exit(exitFailed)
	}
	if err := run(&load, recorder); err != nil {
		fmt.Fprintf(os.Stderr, "openloop: %s\n", err)
		os.Exit(exitFailed)
	}
}

// secure prepares a load of a protocol with TLS.
func secure(load *load, name, authorities string, recorder *recorder) (err error) {
	if load.protocol == http1 {
		return nil
	}
	if nextProtocols[load.protocol] == "" {
		return fmt.Errorf("unknown protocol %q", load.protocol)
	}
	if name == "" {
		if name, _, err = net.SplitHostPort(load.address); err != nil {
			return err
		}
	}
	recorder.summary.Handshakes = new(handshakes)
	if load.isEarly {
		recorder.summary.Handshakes.Early = new(int64)
	}
	if load.tls, err = security(load.protocol, name, authorities, recorder.summary.Handshakes); err != nil {
		return err
	}
	for i := range load.requests {
		if err := load.requests[i].parse(); err != nil {
			return fmt.Errorf("request %d: %w", i+1, err)
		}
	}
	return nil
}

// read reads a JSON file; no name is no file.
func read(file string, to any) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func run(load *load, recorder *recorder) error {
	if len(load.requests) == 0 {
		return errors.New("no request")
	}
	for _, place := range load.order {
		if place < 0 || place >= len(load.requests) {
			return fmt.Errorf("there is no request %d", place)
		}
	}
	if err := load.send(recorder); err != nil {
		return err
	}
	return json.NewEncoder(os.Stderr).Encode(recorder.summary)
}
