package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// row is a row as the reducer reads it.
type row struct {
	Start, Late, Took, Received int64
	Status                      uint16
	Class, OtherSize            uint8
}

// sent sends a load to a server, by GET unless it has requests, and returns its rows and summary.
func sent(t *testing.T, server *httptest.Server, load *load) ([]row, summary) {
	t.Helper()
	if load.requests == nil {
		load.requests = []request{get("/")}
	}
	return sentTo(t, server.Listener.Addr().String(), load, nil)
}

func sentTo(t *testing.T, address string, load *load, counts *handshakes) ([]row, summary) {
	t.Helper()
	load.address = address
	if load.timeout == 0 {
		load.timeout = 10 * time.Second
	}
	var out bytes.Buffer
	recorder := &recorder{out: &out, summary: summary{Errors: map[string]int64{}, Handshakes: counts}}
	if err := load.send(recorder); err != nil {
		t.Fatal(err)
	}
	rows := make([]row, out.Len()/36)
	if err := binary.Read(&out, binary.LittleEndian, rows); err != nil || out.Len() > 0 {
		t.Fatal(err, out.Len())
	}
	return rows, recorder.summary
}

func get(path string) request {
	return request{Method: "GET", Bytes: []byte("GET " + path + " HTTP/1.1\r\nHost: here\r\n\r\n")}
}

func started(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestNoRequestIsSentInTheLead(t *testing.T) {
	const lead = 200 * time.Millisecond
	var opened, answered, early atomic.Int64
	var before time.Time
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if answered.Add(1); time.Since(before) < lead {
			early.Add(1)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	before = time.Now()
	_, summary := sent(t, server, &load{connections: 3, keepalive: true, lead: lead, duration: 50 * time.Millisecond})
	if took := time.Since(before); took < lead+50*time.Millisecond || summary.Duration >= took.Seconds()-lead.Seconds()/2 {
		t.Errorf("took %s, of which %f s are stated", took, summary.Duration)
	}
	if early.Load() > 0 || opened.Load() != 3 || answered.Load() != summary.Requests {
		t.Errorf("%d answers in the lead; %d connections, %d answers", early.Load(), opened.Load(), answered.Load())
	}
}

func TestRequestsStartWhenTheyAreDue(t *testing.T) {
	server := started(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	before := time.Now()
	rows, summary := sent(t, server, &load{connections: 4, keepalive: true, stages: schedule{{50, 2 * time.Millisecond}}})
	if len(rows) != 50 || summary.Requests != 50 || summary.Received != 250 || len(summary.Errors) > 0 {
		t.Fatalf("%d rows, %+v", len(rows), summary)
	}
	first := rows[0].Start - rows[0].Late // rows are in the order of the answers
	for _, each := range rows {
		first = min(first, each.Start-each.Late)
	}
	for _, each := range rows {
		if due := each.Start - each.Late - first; each.Late < 0 || due%2e6 != 0 || due < 0 || due >= 100e6 {
			t.Errorf("due after %d ns", due)
		}
		if each.Status != 200 || each.Received != 5 || each.Took <= 0 || each.Start < before.UnixNano() {
			t.Errorf("%+v", each)
		}
	}
}

func TestWhatFindsNoFreeConnectionWaits(t *testing.T) {
	for free, waits := range map[int64]bool{0: true, 3: false} {
		sender := &load{stages: schedule{{3, time.Nanosecond}}}
		sender.free.Store(free)
		queue := make(chan arrival, 3)
		if err := sender.release(time.Now(), queue); err != nil {
			t.Fatal(err)
		}
		for each := range queue {
			if each.waits != waits || each.start < each.late || each.late < 0 {
				t.Errorf("%d connections are free: %+v", free, each)
			}
		}
	}
}

func TestWaitingForAConnectionIsTheServersTimeAndNotLag(t *testing.T) {
	server := started(t, func(http.ResponseWriter, *http.Request) {})
	const waited = int64(time.Second)
	for _, waits := range []bool{true, false} {
		var out bytes.Buffer
		recorder := &recorder{out: &out, began: time.Now().Add(-time.Duration(waited)), summary: summary{Errors: map[string]int64{}}}
		sender := &load{requests: []request{get("/")}, timeout: time.Minute}
		more := true
		sender.serve(&connection{address: server.Listener.Addr().String()}, func() (arrival, bool) {
			first := more
			more = false
			return arrival{0, 2, 1, waits}, first
		}, recorder)
		recorder.flush()
		var got row
		if err := binary.Read(&out, binary.LittleEndian, &got); err != nil {
			t.Fatal(err)
		}
		began := recorder.began.UnixNano()
		if waits && (got.Start != began+2 || got.Late != 1 || got.Took < waited-2) {
			t.Errorf("no connection was free: %+v", got)
		}
		if late := got.Start - began - 2; !waits && (late < waited-2 || got.Late != late+1 || got.Took <= 0) {
			t.Errorf("a connection was free: %+v", got)
		}
	}
}

func TestAClosedLoopHasNothingDue(t *testing.T) {
	server := started(t, func(http.ResponseWriter, *http.Request) { time.Sleep(100 * time.Millisecond) })
	rows, summary := sent(t, server, &load{connections: 2, keepalive: true, duration: time.Second})
	if len(rows) < 2 || len(rows) > 22 || rows[0].Late != -1 || summary.Duration < 1 {
		t.Errorf("%d rows, %+v", len(rows), summary)
	}
}

func TestResponsesOfAnyForm(t *testing.T) {
	server := started(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/chunks":
			fmt.Fprint(w, "one")
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "two")
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		case "/hint":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
		case "/close":
			w.Header().Set("Connection", "close")
			fmt.Fprint(w, "bye")
		case "/echo":
			fmt.Fprint(w, "pad")
			io.Copy(w, r.Body)
		}
	})
	head := request{Method: "HEAD", Bytes: []byte("HEAD /echo HTTP/1.1\r\nHost: here\r\n\r\n")}
	post := request{Method: "POST", Bytes: []byte("POST /echo HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\nk=v\n")}
	requests := []request{get("/chunks"), get("/none"), get("/hint"), get("/close"), head, post}
	rows, summary := sent(t, server, &load{connections: 1, keepalive: true, requests: requests, stages: schedule{{12, time.Millisecond}}})
	if len(rows) != 12 || len(summary.Errors) > 0 {
		t.Fatalf("%d rows, %+v", len(rows), summary)
	}
	for i, each := range rows {
		status := []uint16{200, 204, 418, 200, 200, 200}[i%6]
		received := []int64{6, 0, 0, 3, 0, 7}[i%6]
		if each.Status != status || each.Received != received {
			t.Errorf("request %d: %+v", i, each)
		}
	}
}

func TestRequestsAreSentWhenTheyAreDueInTheirOrder(t *testing.T) {
	var lock sync.Mutex
	var paths []string
	server := started(t, func(_ http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		paths = append(paths, r.URL.Path)
	})
	due := []time.Duration{0, 2 * time.Millisecond, 2 * time.Millisecond, 30 * time.Millisecond}
	rows, summary := sent(t, server, &load{connections: 1, keepalive: true, due: due, order: []int{1, 0, 0},
		requests: []request{get("/a"), get("/b")}})
	if got := strings.Join(paths, ""); got != "/b/a/a/b" || summary.Requests != 4 {
		t.Errorf("%s, %+v", got, summary)
	}
	first := rows[0].Start - rows[0].Late
	for i, each := range rows {
		if at := time.Duration(each.Start - each.Late - first); at != due[i] {
			t.Errorf("request %d was due at %s, not %s", i, at, due[i])
		}
	}
}

func TestRowsHaveTheClassAndWhetherTheSizeIsOther(t *testing.T) {
	server := started(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	plain, small, exact, large := get("/"), get("/"), get("/"), get("/")
	small.Class, small.Size = 1, &[2]int64{0, 4}
	exact.Class, exact.Size = 2, &[2]int64{5, 5}
	large.Class, large.Size = 255, &[2]int64{6, 9}
	rows, _ := sent(t, server, &load{connections: 1, keepalive: true, stages: schedule{{4, time.Millisecond}},
		requests: []request{plain, small, exact, large}})
	for i, each := range rows {
		if class := []uint8{0, 1, 2, 255}[i]; each.Class != class || each.OtherSize != []uint8{0, 1, 0, 1}[i] {
			t.Errorf("request %d: %+v", i, each)
		}
	}
}

func TestConnectionsAreReplaced(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		connection, _, _ := w.(http.Hijacker).Hijack()
		io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") // and does not say that it closes
		connection.Close()
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	for _, keepalive := range []bool{true, false} {
		opened.Store(0)
		rows, summary := sent(t, server, &load{connections: 1, keepalive: keepalive, stages: schedule{{4, time.Millisecond}}})
		if len(rows) != 4 || len(summary.Errors) > 0 || opened.Load() != 4 {
			t.Errorf("%d rows, %d connections, %+v", len(rows), opened.Load(), summary)
		}
	}
}

func TestFailuresAreCountedByMessage(t *testing.T) {
	server := started(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stall" {
			<-r.Context().Done()
		}
		connection, _, _ := w.(http.Hijacker).Hijack()
		connection.Close()
	})
	for path, expected := range map[string]string{"/drop": "EOF", "/stall": "i/o timeout"} {
		timeout := 10 * time.Second
		if path == "/stall" {
			timeout = 50 * time.Millisecond
		}
		rows, summary := sent(t, server, &load{connections: 1, keepalive: true, timeout: timeout,
			requests: []request{get(path)}, stages: schedule{{3, time.Millisecond}}})
		var failed int64
		for message, times := range summary.Errors {
			if failed += times; !strings.Contains(message, expected) {
				t.Errorf("%s: %s", path, message)
			}
		}
		if len(rows) != 3 || rows[0].Status != 0 || failed != 3 || summary.Requests != 0 {
			t.Errorf("%s: %+v, %+v", path, rows, summary)
		}
	}
	server.Close()
	_, summary := sent(t, server, &load{connections: 1, keepalive: true, stages: schedule{{1, time.Millisecond}}})
	if summary.Errors["dial connect: connection refused"] != 1 {
		t.Errorf("%+v", summary)
	}
}
