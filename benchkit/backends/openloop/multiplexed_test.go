package main

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// secured is a server of one protocol with TLS; its certificate is that of httptest, for 127.0.0.1.
type secured struct {
	address, authorities, name string
}

func startSecured(t *testing.T, protocol string, handler http.HandlerFunc) *secured {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = protocol == h2
	server.StartTLS()
	t.Cleanup(server.Close)
	started := &secured{address: server.Listener.Addr().String(), name: "127.0.0.1",
		authorities: filepath.Join(t.TempDir(), "ca.pem")}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(started.authorities, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	if protocol == h3 {
		socket, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		started.address = socket.LocalAddr().String()
		config := http3.ConfigureTLSConfig(server.TLS)
		server := &http3.Server{Handler: handler, TLSConfig: config, QUICConfig: &quic.Config{Allow0RTT: true}}
		server.ConnContext = func(ctx context.Context, conn *quic.Conn) context.Context {
			return context.WithValue(ctx, ownConnection{}, conn)
		}
		go func() { _ = server.Serve(socket) }()
		t.Cleanup(func() { _ = server.Close(); _ = socket.Close() })
	}
	return started
}

// ownConnection is the key of the connection in the context of a request of HTTP/3.
type ownConnection struct{}

// sent sends a load of this protocol and returns its rows and summary.
func (s *secured) sent(t *testing.T, load *load) ([]row, summary) {
	t.Helper()
	if load.requests == nil {
		load.requests = []request{get("/")}
	}
	counts := &handshakes{Early: new(int64)}
	var err error
	if load.tls, err = security(load.protocol, s.name, s.authorities, counts); err != nil {
		t.Fatal(err)
	}
	for i := range load.requests {
		if err := load.requests[i].parse(); err != nil {
			t.Fatal(err)
		}
	}
	return sentTo(t, s.address, load, counts)
}

var securedProtocols = []string{https1, h2, h3}

func TestStreamsShareAConnection(t *testing.T) {
	for _, protocol := range securedProtocols[1:] {
		var inFlight, most atomic.Int64
		server := startSecured(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if now := inFlight.Add(1); now > most.Load() {
				most.Store(now)
			}
			time.Sleep(20 * time.Millisecond)
			inFlight.Add(-1)
			io.WriteString(w, r.Proto)
		})
		rows, summary := server.sent(t, &load{protocol: protocol, connections: 1, streams: 8, keepalive: true, duration: time.Second})
		made := summary.Handshakes
		if made.Full != 1 || made.Resumed != 0 || made.Protocol != nextProtocols[protocol] || made.Version != "TLS 1.3" {
			t.Errorf("%s: %+v", protocol, made)
		}
		if most.Load() != 8 || len(summary.Errors) > 0 || int64(len(rows)) != summary.Requests || len(rows) < 8 {
			t.Errorf("%s: %d in flight, %d rows, %+v", protocol, most.Load(), len(rows), summary)
		}
		if length := int64(len("HTTP/2.0")); rows[0].Received != length || rows[0].Status != 200 {
			t.Errorf("%s: %+v", protocol, rows[0])
		}
	}
}

func TestNewConnectionsHaveFullAndResumedHandshakes(t *testing.T) {
	for _, protocol := range securedProtocols {
		for _, resumes := range []bool{false, true} {
			server := startSecured(t, protocol, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
			rows, summary := server.sent(t, &load{protocol: protocol, isFull: !resumes, connections: 2, stages: schedule{{20, 5 * time.Millisecond}}})
			made := summary.Handshakes
			if len(rows) != 20 || summary.Received != 100 || made.Full+made.Resumed != 20 || *made.Early != 0 {
				t.Errorf("%s: %d rows, %+v, %+v", protocol, len(rows), summary, made)
			}
			if resumes != (made.Resumed >= 10) || (!resumes && made.Resumed > 0) {
				t.Errorf("%s, resumption %t: %+v", protocol, resumes, made)
			}
		}
	}
}

func TestEarlyDataIsSentWithinResumedHandshakes(t *testing.T) {
	for _, isEarly := range []bool{false, true} {
		var early atomic.Int64
		server := startSecured(t, h3, func(_ http.ResponseWriter, r *http.Request) {
			if !r.TLS.HandshakeComplete {
				early.Add(1)
			}
		})
		rows, summary := server.sent(t, &load{protocol: h3, connections: 1, isEarly: isEarly, stages: schedule{{20, 5 * time.Millisecond}}})
		made := summary.Handshakes
		if len(rows) != 20 || summary.Requests != 20 || isEarly != (*made.Early >= 15) || isEarly != (early.Load() > 0) {
			t.Errorf("early data %t: %d of the server, %+v, %+v", isEarly, early.Load(), summary, made)
		}
	}
}

func TestBodiesAndFieldsAreThoseOfHTTP1(t *testing.T) {
	for _, protocol := range securedProtocols {
		server := startSecured(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			io.WriteString(w, r.Method+r.Host+string(body)+strings.Join(r.Header["X-Own"], "")+r.UserAgent()+r.Header.Get("Accept-Encoding"))
		})
		post := request{Method: "POST", Bytes: []byte("POST / HTTP/1.1\r\nHost: here\r\nX-Own: own\r\nContent-Length: 4\r\n\r\nk=v\n")}
		rows, summary := server.sent(t, &load{protocol: protocol, connections: 1, keepalive: true, requests: []request{post}, stages: schedule{{3, time.Millisecond}}})
		if expected := int64(3 * len("POSTherek=v\nown")); summary.Received != expected || len(rows) != 3 {
			t.Errorf("%s: %d bytes, not %d: %+v", protocol, summary.Received, expected, summary)
		}
	}
}

func TestEndedConnectionsOfHTTP3AreReplaced(t *testing.T) {
	server := startSecured(t, h3, func(_ http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(ownConnection{}).(*quic.Conn)
		// The response is sent before that, and the next request after it, if the machine does not stop for so long.
		time.AfterFunc(time.Second, func() { _ = conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") })
	})
	rows, summary := server.sent(t, &load{protocol: h3, connections: 1, keepalive: true, stages: schedule{{4, 2 * time.Second}}})
	if made := summary.Handshakes; len(rows) != 4 || len(summary.Errors) > 0 || made.Full+made.Resumed != 4 {
		t.Errorf("%+v, %+v", summary, made)
	}
}

func TestFailuresOfHandshakesAreNamed(t *testing.T) {
	nothing := func(http.ResponseWriter, *http.Request) {}
	chose := "tls: no application protocol"
	for protocol, elsewhere := range map[string]string{https1: "", h2: chose, h3: "no answer from its UDP port"} {
		unverified := startSecured(t, protocol, nothing)
		unverified.name = "other.example"
		cases := map[string]*secured{"certificate is valid for": unverified}
		if elsewhere != "" {
			cases[elsewhere] = startSecured(t, https1, nothing)
		}
		for expected, server := range cases {
			load := &load{protocol: protocol, connections: 1, timeout: 8 * time.Second, stages: schedule{{1, time.Millisecond}}}
			_, summary := server.sent(t, load)
			for message := range summary.Errors {
				if !strings.Contains(message, expected) {
					t.Errorf("%s: %q, not %q", protocol, message, expected)
				}
			}
			if len(summary.Errors) != 1 || summary.Requests != 0 {
				t.Errorf("%s: %+v", protocol, summary)
			}
		}
	}
}
