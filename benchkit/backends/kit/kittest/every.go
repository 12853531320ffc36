package kittest

import (
	"bytes"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"benchkit/backends/kit"
)

// Extra is a header field that a backend sends in addition to those of study 1, and the length of its value.
type Extra struct {
	Name   string
	Length int
}

// suite holds the tests of a backend: how they connect to it, and the response that they expect.
type suite struct {
	dial  func(*testing.T, string) *Client
	extra []Extra
}

// headerBytes returns the length of the header of a response with a body of two-digit length.
func (s *suite) headerBytes() int {
	size := kit.HeaderBytes
	for _, field := range s.extra {
		size += len(field.Name) + len(": ") + field.Length + len("\r\n")
	}
	return size
}

// HTTP tests a backend that speaks HTTP: its response bytes, its work, its counter and its faults.
func HTTP(t *testing.T, extra ...Extra) {
	s := &suite{Dial, extra}
	run(t, "keep-alive and close", s.keepAliveAndClose)
	run(t, "pipelined requests", s.pipelined)
	run(t, "requests in pieces", s.inPieces)
	run(t, "HEAD", s.head)
	run(t, "requests with a body", s.withBody)
	run(t, "HTTP/1.0", s.http10)
	run(t, "what is no request", s.noRequest)
	run(t, "a large answer, and the end", s.largeThenClosed)
	s.every(t)
}

// FastCGI tests a backend that speaks FastCGI, by the responses that nginx would make of its output.
func FastCGI(t *testing.T) {
	s := &suite{DialFastCGI, nil}
	run(t, "keeps the connection on request", s.keepsFastCGI)
	s.every(t)
}

// every runs the tests that do not depend on the protocol.
func (s *suite) every(t *testing.T) {
	run(t, "response bytes", s.responseBytes)
	run(t, "response bytes on a unix socket", s.responseBytesUnix)
	run(t, "body size", s.bodySize)
	run(t, "says nothing more than where it listens", s.saysLittle)
	run(t, "work", s.work)
	run(t, "requests are counted", s.requestsCounted)
	run(t, "fault: fail", s.faultFail)
	run(t, "fault: hang", s.faultHang)
	run(t, "fault: delay", s.faultDelay)
	run(t, "fault: lock", func(t *testing.T) { s.oneByOne(t, "lock:30ms") })
	run(t, "fault: queue", func(t *testing.T) { s.oneByOne(t, "queue:30ms") })
	run(t, "fault: slow start", s.faultSlowStart)
	run(t, "fault: body and header", s.faultBodyAndHeader)
}

// run runs a test in parallel with others, because most tests mostly wait.
func run(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

// checkBytes compares a response with that of study 1.
func (s *suite) checkBytes(t *testing.T, response Response) {
	t.Helper()
	if !strings.HasPrefix(response.Header, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("status line of %q", response.Header)
	}
	if len(response.Header) != s.headerBytes() {
		t.Errorf("%d header bytes, want %d: %q", len(response.Header), s.headerBytes(), response.Header)
	}
	for name, want := range map[string]string{
		"Server":         "gophr",
		"Connection":     "keep-alive",
		"Content-Type":   "text/plain",
		"Content-Length": "12",
	} {
		if got := response.Fields.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	date, err := time.Parse(time.RFC1123, response.Fields.Get("Date"))
	if err != nil || time.Since(date).Abs() > time.Minute {
		t.Errorf("Date: %q", response.Fields.Get("Date"))
	}
	for _, field := range s.extra {
		if len(response.Fields.Get(field.Name)) != field.Length {
			t.Errorf("%s: %q", field.Name, response.Fields.Get(field.Name))
		}
	}
	if len(response.Fields) != 5+len(s.extra) {
		t.Errorf("fields in addition to those of the study: %q", response.Header)
	}
	if string(response.Body) != kit.Hello {
		t.Errorf("body %q", response.Body)
	}
}

func (s *suite) responseBytes(t *testing.T) {
	s.checkBytes(t, s.dial(t, Start(t, "-listen", loopback).Address).Get(t))
}

func (s *suite) responseBytesUnix(t *testing.T) {
	server := Start(t, "-listen", "unix:"+shortFolder(t)+"/s")
	s.checkBytes(t, s.dial(t, server.Address).Get(t))
}

func (s *suite) bodySize(t *testing.T) {
	for _, test := range []struct {
		size string
		body string
	}{
		{"0", ""},
		{"1", "H"},
		{"13", "Hello World\nH"},
		{"100000", string(bytes.Repeat([]byte("Hello World\n"), 8334)[:100000])}, // larger than any buffer
	} {
		response := s.dial(t, Start(t, "-listen", loopback, "-body-size", test.size).Address).Get(t)
		if response.Status != 200 || string(response.Body) != test.body {
			t.Errorf("-body-size %s: status %d, %d bytes", test.size, response.Status, len(response.Body))
		}
		if extra := len(response.Header) - s.headerBytes(); extra != len(test.size)-len("12") {
			t.Errorf("-body-size %s: %d header bytes", test.size, len(response.Header))
		}
	}
}

func (s *suite) work(t *testing.T) {
	idle := s.dial(t, Start(t, "-listen", loopback, "-work", "loop:0").Address)
	busy := s.dial(t, Start(t, "-listen", loopback, "-work", "loop:100000000").Address)
	s.checkBytes(t, idle.Get(t))
	s.checkBytes(t, busy.Get(t))
	// 100 million additions, each dependent on the one before, take at least 20 ms at 5 GHz unless the compiler removes them.
	if took := quickest(t, busy); took < 10*time.Millisecond {
		t.Errorf("a loop of 100,000,000 is answered in %v", took)
	}
}

// quickest returns the shortest of several response times, because noise only makes them longer.
func quickest(t *testing.T, client *Client) time.Duration {
	t.Helper()
	shortest := Deadline
	for range 5 {
		began := time.Now()
		client.Get(t)
		shortest = min(shortest, time.Since(began))
	}
	return shortest
}

func (s *suite) requestsCounted(t *testing.T) {
	server := Start(t, "-listen", loopback, "-admin", loopback)
	before := server.Vars(t).Requests
	const clients, each = 20, 50
	var done sync.WaitGroup
	for range clients {
		client := s.dial(t, server.Address)
		done.Add(1)
		go func() {
			defer done.Done()
			for range each {
				if _, err := client.exchange(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	done.Wait()
	// A client may read the last responses before the server counts them.
	for deadline := time.Now().Add(Deadline); ; time.Sleep(time.Millisecond) {
		served := server.Vars(t).Requests - before
		if served == clients*each {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests counted, %d answered", served, clients*each)
		}
	}
}

func (s *suite) faultFail(t *testing.T) {
	client := s.dial(t, Start(t, "-listen", loopback, "-inject-fault", "fail:0.1").Address)
	failed := 0
	for range 50 {
		response := client.Get(t)
		if response.Status == 500 {
			failed++
		} else {
			s.checkBytes(t, response)
		}
		if string(response.Body) != kit.Hello {
			t.Errorf("status %d with body %q", response.Status, response.Body)
		}
	}
	if failed != 5 {
		t.Errorf("%d of 50 failed, want 5", failed)
	}
}

func (s *suite) faultHang(t *testing.T) {
	server := Start(t, "-listen", loopback, "-inject-fault", "hang:0.5")
	s.checkBytes(t, s.dial(t, server.Address).Get(t))
	hanging := s.dial(t, server.Address)
	hanging.Send(t)
	if !hanging.Silent(t, 200*time.Millisecond) {
		t.Error("the second request was answered")
	}
	s.checkBytes(t, s.dial(t, server.Address).Get(t)) // the server still answers others
}

func (s *suite) faultDelay(t *testing.T) {
	client := s.dial(t, Start(t, "-listen", loopback, "-inject-fault", "delay:30ms").Address)
	if took := quickest(t, client); took < 30*time.Millisecond {
		t.Errorf("answered after %v", took)
	}
}

// oneByOne checks a fault that answers each request 30 ms after the one before.
func (s *suite) oneByOne(t *testing.T, fault string) {
	server := Start(t, "-listen", loopback, "-inject-fault", fault)
	clients := []*Client{s.dial(t, server.Address), s.dial(t, server.Address), s.dial(t, server.Address)}
	began := time.Now()
	for _, client := range clients {
		client.Send(t)
	}
	for _, client := range clients {
		s.checkBytes(t, client.Receive(t))
	}
	if took := time.Since(began); took < 90*time.Millisecond {
		t.Errorf("three requests took %v", took)
	}
}

func (s *suite) faultSlowStart(t *testing.T) {
	client := s.dial(t, Start(t, "-listen", loopback, "-inject-fault", "slow-start:1h").Address)
	if took := quickest(t, client); took < 190*time.Microsecond { // 200 µs of extra CPU time at the start
		t.Errorf("answered after %v", took)
	}
}

func (s *suite) faultBodyAndHeader(t *testing.T) {
	server := Start(t, "-listen", loopback, "-inject-fault", "body:other", "-inject-fault", "header:X-Extra=1, 2")
	response := s.dial(t, server.Address).Get(t)
	if len(response.Body) != len(kit.Hello) || string(response.Body) == kit.Hello {
		t.Errorf("body %q", response.Body)
	}
	want := s.headerBytes() + len("X-Extra: 1, 2\r\n")
	if response.Fields.Get("X-Extra") != "1, 2" || len(response.Header) != want {
		t.Errorf("header %q, want %d bytes", response.Header, want)
	}
}

func (s *suite) saysLittle(t *testing.T) {
	server := Start(t, "-listen", loopback)
	client := s.dial(t, server.Address)
	for range 10 {
		client.Get(t)
	}
	_, stderr, _ := server.End(t, syscall.SIGTERM)
	if want := "listening on " + server.Address + "\n"; stderr != want {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
}
