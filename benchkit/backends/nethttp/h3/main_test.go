package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"benchkit/backends/kit"
	"benchkit/backends/kit/kittest"
	"github.com/quic-go/quic-go/http3"
)

func TestMain(m *testing.M) { kittest.Main(m, main) }

// TestHTTP3 compares an answer with that of the other servers, and the counters with what the client did.
func TestHTTP3(t *testing.T) {
	certificate, key, authorities := pair(t)
	server := kittest.Start(t, "-protocol", "h3", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0",
		"-tls-certificate", certificate, "-tls-key", key)
	config := &tls.Config{RootCAs: authorities, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for range 2 {
		transport := &http3.Transport{TLSClientConfig: config}
		for range 2 {
			request, err := http.NewRequest(http.MethodGet, "https://"+server.Address+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil || string(body) != kit.Hello || response.StatusCode != http.StatusOK {
				t.Fatalf("%s %q: %v", response.Status, body, err)
			}
			if fields := response.Header["Connection"]; fields != nil {
				t.Fatalf("Connection: %v, which HTTP/3 forbids", fields)
			}
		}
		if err := transport.Close(); err != nil {
			t.Fatal(err)
		}
	}
	vars := struct {
		Requests    int
		TLS         struct{ Handshakes, Resumed int }
		Connections struct{ Accepted, Open int }
	}{}
	deadline := time.Now().Add(kittest.Deadline)
	for vars.Connections.Accepted == 0 || vars.Connections.Open > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("still open: %+v", vars)
		}
		response, err := http.Get("http://" + server.Admin + "/debug/vars")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(response.Body).Decode(&vars); err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	if vars.Requests != 4 || vars.TLS.Handshakes != 2 || vars.TLS.Resumed != 1 || vars.Connections.Accepted != 2 {
		t.Errorf("4 requests on 2 connections, one of them resumed: %+v", vars)
	}
}

// pair writes a certificate for 127.0.0.1 and its key, and returns their paths with what verifies it.
func pair(t *testing.T) (string, string, *x509.CertPool) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key := filepath.Join(t.TempDir(), "certificate.pem"), filepath.Join(t.TempDir(), "key.pem")
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public})
	for path, content := range map[string][]byte{
		certificate: encoded,
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(encoded)
	return certificate, key, authorities
}
