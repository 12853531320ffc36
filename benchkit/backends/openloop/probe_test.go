package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// body is larger than the window with which flow control begins.
var body = strings.Repeat("Hello World\n", 20_000)

func echo(w http.ResponseWriter, r *http.Request) {
	sent, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Method", r.Method+" "+r.Host+r.URL.Path)
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(append(sent, body...))
}

func TestTheProbeReadsAResponseOfEachProtocol(t *testing.T) {
	post := request{Method: "POST", Bytes: []byte("POST /a HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 4\r\n\r\nsent")}
	digest := sha256.Sum256([]byte("sent" + body))
	for _, protocol := range []string{http1, https1, h2, h2c, h3} {
		p := probe{protocol: protocol, timeout: 30 * time.Second, shown: 8}
		expected := negotiated{Protocol: protocol}
		if nextProtocols[protocol] == "" {
			server := httptest.NewUnstartedServer(http.HandlerFunc(echo))
			server.Config.Protocols = new(http.Protocols)
			server.Config.Protocols.SetHTTP1(protocol == http1)
			server.Config.Protocols.SetUnencryptedHTTP2(protocol == h2c)
			server.Start()
			defer server.Close()
			p.address = server.Listener.Addr().String()
		} else {
			secured := startSecured(t, protocol, echo)
			p.address, p.authorities, p.name = secured.address, secured.authorities, secured.name
			expected = negotiated{protocol, "1.3", "TLS_AES_128_GCM_SHA256", "rsa-2048"}
		}
		found, err := p.ask(&probeRequest{post, "World"})
		if err != nil {
			t.Fatalf("%s: %s", protocol, err)
		}
		if found.Status != 202 || found.BodyBytes != int64(4+len(body)) || found.BodySHA256 != hex.EncodeToString(digest[:]) ||
			string(found.BodyStart) != "sentHell" || !found.HasText || !found.Complete || found.Closes != (protocol == http1 || protocol == https1) {
			t.Errorf("%s: %+v", protocol, found)
		}
		if found.Negotiated != expected {
			t.Errorf("%s: %+v", protocol, found.Negotiated)
		}
		fields := 0
		for _, field := range found.Headers {
			if strings.EqualFold(field[0], "x-method") && field[1] == "POST here/a" {
				fields++
			}
		}
		if fields != 1 || found.HeaderBytes < 60 {
			t.Errorf("%s: %d bytes, %v", protocol, found.HeaderBytes, found.Headers)
		}
	}
}

func TestAServerWithoutHTTP2IsProbedOverHTTP1(t *testing.T) {
	secured := startSecured(t, https1, echo)
	p := probe{address: secured.address, authorities: secured.authorities, protocol: h2, timeout: 30 * time.Second}
	found, err := p.ask(&probeRequest{request: get("/")})
	if err != nil || found.Negotiated.Protocol != https1 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestTheProbeOfHTTP1ReadsEveryFormOfBody(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nServer: some\r\n"
	for response, expected := range map[string]answer{
		head + "Content-Length: 5\r\n\r\nHello":                              {HeaderBytes: 52, BodyBytes: 5, Complete: true},
		head + "Content-Length: 9\r\n\r\nHello":                              {HeaderBytes: 52, BodyBytes: 5},
		head + "Transfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n0\r\n\r\n":   {HeaderBytes: 61, BodyBytes: 5, Complete: true},
		head + "Transfer-Encoding: chunked\r\n\r\nff\r\nHello":               {HeaderBytes: 61, BodyBytes: 5},
		"HTTP/1.0 200 OK\r\n\r\nHello":                                       {HeaderBytes: 19, BodyBytes: 5, Complete: true, Closes: true},
		"HTTP/1.1 100 Continue\r\n\r\n" + head + "Content-Length: 0\r\n\r\n": {HeaderBytes: 52, Complete: true},
		head + "Connection: close\r\nContent-Length: 0\r\n\r\n":              {HeaderBytes: 71, Complete: true, Closes: true},
	} {
		p := probe{address: serveOnce(t, response), protocol: http1, timeout: 30 * time.Second}
		found, err := p.ask(&probeRequest{request: get("/")})
		if err != nil {
			t.Fatalf("%q: %s", response, err)
		}
		if found.HeaderBytes != expected.HeaderBytes || found.BodyBytes != expected.BodyBytes ||
			found.Complete != expected.Complete || found.Closes != expected.Closes {
			t.Errorf("%q: %+v", response, found)
		}
	}
}

func TestTheProbeSaysWhyThereIsNoResponse(t *testing.T) {
	closed := serveOnce(t, "")
	secured := startSecured(t, https1, echo)
	for name, each := range map[string]struct {
		probe         probe
		kind, message string
	}{
		"SSH":         {probe{address: serveOnce(t, "SSH-2.0-OpenSSH_9.2\r\n"), protocol: http1}, "protocol", "it began with \"SSH-2.0"},
		"nothing":     {probe{address: closed, protocol: http1}, "protocol", "it was empty"},
		"closed":      {probe{address: "127.0.0.1:1", protocol: http1}, "connect", "connection refused"},
		"silent":      {probe{address: serveOnce(t, "silent"), protocol: http1, timeout: 50 * time.Millisecond}, "timeout", "i/o timeout"},
		"certificate": {probe{address: secured.address, protocol: https1, authorities: secured.authorities, name: "elsewhere"}, "tls", "not elsewhere"},
		"no TLS":      {probe{address: serveOnce(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), protocol: https1, authorities: secured.authorities}, "tls", "TLS handshake"},
	} {
		if each.probe.timeout == 0 {
			each.probe.timeout = 30 * time.Second
		}
		_, err := each.probe.ask(&probeRequest{request: get("/")})
		if err == nil || kindOf(err) != each.kind || !strings.Contains(messageOf(err), each.message) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// serveOnce returns the address of a server that answers one connection with these bytes and closes it; silent ones never do.
func serveOnce(t *testing.T, response string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Read(make([]byte, 4096))
		if response == "silent" {
			time.Sleep(time.Second)
		} else {
			_, _ = conn.Write([]byte(response))
		}
		_ = conn.Close()
	}()
	return listener.Addr().String()
}

func TestCiphersHaveTheNamesOfOpenSSL(t *testing.T) {
	for id, expected := range map[uint16]string{
		0x1301: "TLS_AES_128_GCM_SHA256", 0xc02f: "ECDHE-RSA-AES128-GCM-SHA256", 0xcca9: "ECDHE-ECDSA-CHACHA20-POLY1305",
		0xc013: "ECDHE-RSA-AES128-SHA", 0x009c: "AES128-GCM-SHA256",
	} {
		if got := cipherName(id); got != expected {
			t.Errorf("%s, not %s", got, expected)
		}
	}
}
