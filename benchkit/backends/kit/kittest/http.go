package kittest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"benchkit/backends/kit"
)

// HTTP tests the response bytes of a backend that speaks HTTP, its work, its counter and its faults.
func HTTP(t *testing.T) {
	t.Run("response bytes", responseBytes)
	t.Run("response bytes on a unix socket", responseBytesUnix)
	t.Run("body size", bodySize)
	t.Run("keep-alive and close", keepAliveAndClose)
	t.Run("pipelined requests", pipelined)
	t.Run("requests in pieces", inPieces)
	t.Run("HEAD", head)
	t.Run("requests with a body", withBody)
	t.Run("HTTP/1.0", http10)
	t.Run("what is no request", noRequest)
	t.Run("a large answer, and the end", largeThenClosed)
	t.Run("work", work)
	t.Run("requests are counted", requestsCounted)
	t.Run("fault: fail", faultFail)
	t.Run("fault: hang", faultHang)
	t.Run("fault: delay", faultDelay)
	t.Run("fault: lock", faultLock)
	t.Run("fault: slow start", faultSlowStart)
	t.Run("fault: body and header", faultBodyAndHeader)
}

// checkBytes holds an answer against study 1.
func checkBytes(t *testing.T, response Response) {
	t.Helper()
	if !strings.HasPrefix(response.Header, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("status line of %q", response.Header)
	}
	if len(response.Header) != kit.HeaderBytes {
		t.Errorf("%d header bytes, want %d: %q", len(response.Header), kit.HeaderBytes, response.Header)
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
	if len(response.Fields) != 5 {
		t.Errorf("fields beside the five of the study: %q", response.Header)
	}
	if string(response.Body) != "Hello World\n" {
		t.Errorf("body %q", response.Body)
	}
}

func responseBytes(t *testing.T) {
	checkBytes(t, Dial(t, Start(t, "-listen", loopback).Address).Get(t))
}

func responseBytesUnix(t *testing.T) {
	server := Start(t, "-listen", "unix:"+shortFolder(t)+"/s")
	checkBytes(t, Dial(t, server.Address).Get(t))
}

func bodySize(t *testing.T) {
	for _, test := range []struct {
		size string
		body string
	}{
		{"0", ""},
		{"1", "H"},
		{"13", "Hello World\nH"},
		{"100000", string(bytes.Repeat([]byte("Hello World\n"), 8334)[:100000])}, // larger than any buffer
	} {
		response := Dial(t, Start(t, "-listen", loopback, "-body-size", test.size).Address).Get(t)
		if response.Status != 200 || string(response.Body) != test.body {
			t.Errorf("-body-size %s: status %d, %d bytes", test.size, response.Status, len(response.Body))
		}
		if extra := len(response.Header) - kit.HeaderBytes; extra != len(test.size)-len("12") {
			t.Errorf("-body-size %s: %d header bytes", test.size, len(response.Header))
		}
	}
}

func keepAliveAndClose(t *testing.T) {
	server := Start(t, "-listen", loopback)
	client := Dial(t, server.Address)
	for range 3 {
		checkBytes(t, client.Get(t))
	}
	client.Send(t) // pipelined
	client.Send(t)
	checkBytes(t, client.Receive(t))
	checkBytes(t, client.Receive(t))

	response := client.Get(t, "Connection: close")
	if string(response.Body) != kit.Hello || !client.Closed(t) {
		t.Errorf("Connection: close: body %q, or the connection stays open", response.Body)
	}
}

// plain is a request with nothing that a server could trip over.
const plain = "GET / HTTP/1.1\r\nHost: sut\r\n\r\n"

func pipelined(t *testing.T) {
	const requests = 2000 // more than a read brings, and their answers more than a socket takes at once
	client := Dial(t, Start(t, "-listen", loopback).Address)
	client.Write(t, strings.Repeat(plain, requests))
	for range requests {
		if response := client.Receive(t); response.Status != 200 || string(response.Body) != kit.Hello {
			t.Fatalf("%+v", response)
		}
	}
	checkBytes(t, client.Get(t))
}

func inPieces(t *testing.T) {
	client := Dial(t, Start(t, "-listen", loopback).Address)
	for i := range len(plain) {
		client.Write(t, plain[i:i+1])
	}
	checkBytes(t, client.Receive(t))
	// One and a half: what has arrived whole is answered before the rest is there.
	client.Write(t, plain+plain[:len(plain)/2])
	checkBytes(t, client.Receive(t))
	client.Write(t, plain[len(plain)/2:])
	checkBytes(t, client.Receive(t))
}

func head(t *testing.T) {
	client := Dial(t, Start(t, "-listen", loopback).Address)
	client.Write(t, strings.Replace(plain, "GET", "HEAD", 1))
	response := client.ReceiveHeader(t)
	if response.Status != 200 || len(response.Header) != kit.HeaderBytes {
		t.Errorf("HEAD: %q", response.Header)
	}
	checkBytes(t, client.Get(t)) // nothing stands between
}

func withBody(t *testing.T) {
	client := Dial(t, Start(t, "-listen", loopback).Address)
	for _, rest := range []string{
		"Content-Length: 5\r\n\r\nhello",
		"Content-Length: 5000\r\n\r\n" + strings.Repeat("GET / HTTP/1.1\r\n\r\n, ", 5000/15)[:5000],
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		client.Write(t, "POST / HTTP/1.1\r\nHost: sut\r\n"+rest)
		checkBytes(t, client.Receive(t))
	}
	checkBytes(t, client.Get(t))
}

func http10(t *testing.T) {
	server := Start(t, "-listen", loopback)
	stays := Dial(t, server.Address)
	for range 2 {
		stays.Write(t, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
		response := stays.Receive(t)
		if string(response.Body) != kit.Hello || len(response.Header) != kit.HeaderBytes {
			t.Errorf("%+v", response)
		}
	}
	goes := Dial(t, server.Address)
	goes.Write(t, "GET / HTTP/1.0\r\n\r\n")
	if response := goes.Receive(t); string(response.Body) != kit.Hello || !goes.Closed(t) {
		t.Errorf("%+v, or the connection stays open", response)
	}
}

func noRequest(t *testing.T) {
	server := Start(t, "-listen", loopback)
	for _, text := range []string{
		"hello\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: sut\r\nContent-Length: many\r\n\r\n",
	} {
		client := Dial(t, server.Address)
		client.Write(t, text)
		if answer := client.Rest(t); answer != "" && !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
			t.Errorf("%q is answered with %q", text, answer)
		}
	}
	checkBytes(t, Dial(t, server.Address).Get(t)) // the server lives
}

func largeThenClosed(t *testing.T) {
	const size = 16 << 20 // more than the sockets' buffers hold
	client := Dial(t, Start(t, "-listen", loopback, "-body-size", "16777216").Address)
	client.Send(t, "Connection: close")
	if !bytes.Equal(client.Receive(t).Body, kit.Body(size)) || !client.Closed(t) {
		t.Error("other bytes, or the connection stays open")
	}
}

func work(t *testing.T) {
	idle := Dial(t, Start(t, "-listen", loopback, "-work", "loop:0").Address)
	busy := Dial(t, Start(t, "-listen", loopback, "-work", "loop:100000000").Address)
	checkBytes(t, idle.Get(t))
	checkBytes(t, busy.Get(t))
	// 100 million additions, each waiting for the one before: 20 ms at 5 GHz, and no less unless they are left out.
	if took := quickest(t, busy); took < 10*time.Millisecond {
		t.Errorf("a loop of 100,000,000 is answered in %v", took)
	}
}

// quickest is the shortest of some response times: noise only adds.
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

func requestsCounted(t *testing.T) {
	server := Start(t, "-listen", loopback, "-admin", loopback)
	before := server.Vars(t).Requests
	const clients, each = 20, 50
	var done sync.WaitGroup
	for range clients {
		client := Dial(t, server.Address)
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
	// The last answers may be read before they are counted.
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

func faultFail(t *testing.T) {
	client := Dial(t, Start(t, "-listen", loopback, "-inject-fault", "fail:0.1").Address)
	failed := 0
	for range 50 {
		response := client.Get(t)
		if response.Status == 500 {
			failed++
		} else {
			checkBytes(t, response)
		}
		if string(response.Body) != kit.Hello {
			t.Errorf("status %d with body %q", response.Status, response.Body)
		}
	}
	if failed != 5 {
		t.Errorf("%d of 50 failed, want 5", failed)
	}
}

func faultHang(t *testing.T) {
	server := Start(t, "-listen", loopback, "-inject-fault", "hang:0.5")
	checkBytes(t, Dial(t, server.Address).Get(t))
	hanging := Dial(t, server.Address)
	hanging.Send(t)
	if !hanging.Silent(t, 200*time.Millisecond) {
		t.Error("the second request was answered")
	}
	checkBytes(t, Dial(t, server.Address).Get(t)) // the rest of the server lives
}

func faultDelay(t *testing.T) {
	client := Dial(t, Start(t, "-listen", loopback, "-inject-fault", "delay:30ms").Address)
	if took := quickest(t, client); took < 30*time.Millisecond {
		t.Errorf("answered after %v", took)
	}
}

func faultLock(t *testing.T) {
	server := Start(t, "-listen", loopback, "-inject-fault", "lock:30ms")
	clients := []*Client{Dial(t, server.Address), Dial(t, server.Address), Dial(t, server.Address)}
	began := time.Now()
	for _, client := range clients {
		client.Send(t)
	}
	for _, client := range clients {
		checkBytes(t, client.Receive(t))
	}
	if took := time.Since(began); took < 90*time.Millisecond {
		t.Errorf("three requests that need one lock for 30 ms took %v", took)
	}
}

func faultSlowStart(t *testing.T) {
	client := Dial(t, Start(t, "-listen", loopback, "-inject-fault", "slow-start:1h").Address)
	if took := quickest(t, client); took < 190*time.Microsecond { // 200 µs of CPU time at first
		t.Errorf("answered after %v", took)
	}
}

func faultBodyAndHeader(t *testing.T) {
	server := Start(t, "-listen", loopback, "-inject-fault", "body:other", "-inject-fault", "header:X-Extra=1, 2")
	response := Dial(t, server.Address).Get(t)
	if len(response.Body) != len(kit.Hello) || string(response.Body) == kit.Hello {
		t.Errorf("body %q", response.Body)
	}
	want := kit.HeaderBytes + len("X-Extra: 1, 2\r\n")
	if response.Fields.Get("X-Extra") != "1, 2" || len(response.Header) != want {
		t.Errorf("header %q, want %d bytes", response.Header, want)
	}
}
