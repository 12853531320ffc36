package kittest

import (
	"bytes"
	"strings"
	"testing"

	"benchkit/backends/kit"
)

func (s *suite) keepAliveAndClose(t *testing.T) {
	server := Start(t, "-listen", loopback)
	client := s.dial(t, server.Address)
	for range 3 {
		s.checkBytes(t, client.Get(t))
	}
	client.Send(t) // pipelined
	client.Send(t)
	s.checkBytes(t, client.Receive(t))
	s.checkBytes(t, client.Receive(t))

	response := client.Get(t, "Connection: close")
	if string(response.Body) != kit.Hello || !client.Closed(t) {
		t.Errorf("Connection: close: body %q, or the connection stays open", response.Body)
	}
}

// plain is a minimal valid request.
const plain = "GET / HTTP/1.1\r\nHost: sut\r\n\r\n"

func (s *suite) pipelined(t *testing.T) {
	const requests = 2000 // more than one read returns, with responses larger than the socket's buffer
	client := s.dial(t, Start(t, "-listen", loopback).Address)
	client.Write(t, strings.Repeat(plain, requests))
	for range requests {
		if response := client.Receive(t); response.Status != 200 || string(response.Body) != kit.Hello {
			t.Fatalf("%+v", response)
		}
	}
	s.checkBytes(t, client.Get(t))
}

func (s *suite) inPieces(t *testing.T) {
	client := s.dial(t, Start(t, "-listen", loopback).Address)
	for i := range len(plain) {
		client.Write(t, plain[i:i+1])
	}
	s.checkBytes(t, client.Receive(t))
	// One and a half requests: the complete one is answered before the rest arrives.
	client.Write(t, plain+plain[:len(plain)/2])
	s.checkBytes(t, client.Receive(t))
	client.Write(t, plain[len(plain)/2:])
	s.checkBytes(t, client.Receive(t))
}

func (s *suite) head(t *testing.T) {
	client := s.dial(t, Start(t, "-listen", loopback).Address)
	client.Write(t, strings.Replace(plain, "GET", "HEAD", 1))
	response := client.ReceiveHeader(t)
	if response.Status != 200 || len(response.Header) != s.headerBytes() {
		t.Errorf("HEAD: %q", response.Header)
	}
	s.checkBytes(t, client.Get(t)) // the next response follows directly
}

func (s *suite) withBody(t *testing.T) {
	client := s.dial(t, Start(t, "-listen", loopback).Address)
	for _, rest := range []string{
		"Content-Length: 5\r\n\r\nhello",
		"Content-Length: 5000\r\n\r\n" + strings.Repeat("GET / HTTP/1.1\r\n\r\n, ", 5000/15)[:5000],
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		client.Write(t, "POST / HTTP/1.1\r\nHost: sut\r\n"+rest)
		s.checkBytes(t, client.Receive(t))
	}
	s.checkBytes(t, client.Get(t))
}

func (s *suite) http10(t *testing.T) {
	server := Start(t, "-listen", loopback)
	stays := s.dial(t, server.Address)
	for range 2 {
		stays.Write(t, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
		response := stays.Receive(t)
		if string(response.Body) != kit.Hello || len(response.Header) != s.headerBytes() {
			t.Errorf("%+v", response)
		}
	}
	goes := s.dial(t, server.Address)
	goes.Write(t, "GET / HTTP/1.0\r\n\r\n")
	if response := goes.Receive(t); string(response.Body) != kit.Hello || !goes.Closed(t) {
		t.Errorf("%+v, or the connection stays open", response)
	}
}

func (s *suite) noRequest(t *testing.T) {
	server := Start(t, "-listen", loopback)
	for _, text := range []string{
		"hello\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: sut\r\nContent-Length: many\r\n\r\n",
	} {
		client := s.dial(t, server.Address)
		client.Write(t, text)
		if answer := client.Rest(t); answer != "" && !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
			t.Errorf("the response to %q is %q", text, answer)
		}
	}
	s.checkBytes(t, s.dial(t, server.Address).Get(t)) // the server still answers
}

func (s *suite) largeThenClosed(t *testing.T) {
	const size = 16 << 20 // more than the buffers of the sockets
	client := s.dial(t, Start(t, "-listen", loopback, "-body-size", "16777216").Address)
	client.Send(t, "Connection: close")
	if !bytes.Equal(client.Receive(t).Body, kit.Body(size)) || !client.Closed(t) {
		t.Error("different bytes, or the connection stays open")
	}
}
