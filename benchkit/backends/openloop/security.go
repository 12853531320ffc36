package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
)

// Protocols, as -protocol has them.
const (
	http1  = "http1"
	https1 = "https1"
	h2     = "h2"
	h3     = "h3"
)

// nextProtocols are the protocols with TLS, each with its name in the handshake (ALPN, RFC 7301).
var nextProtocols = map[string]string{https1: "http/1.1", h2: "h2", h3: "h3"}

// handshakes counts the handshakes of all connections, for the summary. Protocol, version and cipher are of the last one.
type handshakes struct {
	Protocol string `json:"alpn"`
	Version  string `json:"version"`
	Cipher   string `json:"cipher"`
	Full     int64  `json:"full"`
	Resumed  int64  `json:"resumed"`
	// Early are the resumed ones in which the server took early data (0-RTT); nil where none was to be sent.
	Early *int64 `json:"early,omitempty"`

	lock sync.Mutex
}

// security returns the configuration of TLS: certificates are verified by those of a PEM file, for the name or, without one,
// for the host of the address.
func security(protocol, host, authorities string, counts *handshakes) (*tls.Config, error) {
	pool, err := readAuthorities(authorities)
	if err != nil {
		return nil, err
	}
	wanted := nextProtocols[protocol]
	return &tls.Config{
		RootCAs:    pool,
		ServerName: host,
		NextProtos: []string{wanted},
		VerifyConnection: func(state tls.ConnectionState) error {
			if state.NegotiatedProtocol != wanted {
				return fmt.Errorf("the server chose %q in the handshake, and not %q", state.NegotiatedProtocol, wanted)
			}
			counts.add(&state)
			return nil
		},
	}, nil
}

// readAuthorities reads the certificates that verify servers from a PEM file.
func readAuthorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate", file)
	}
	return pool, nil
}

// cipherName returns OpenSSL's name of a cipher suite, as ECDHE-RSA-AES128-GCM-SHA256; those of TLS 1.3 have one name.
func cipherName(id uint16) string {
	name := tls.CipherSuiteName(id)
	exchange, cipher, isOld := strings.Cut(strings.TrimPrefix(name, "TLS_"), "_WITH_")
	if !isOld {
		return name
	}
	if cipher = strings.NewReplacer("AES_", "AES", "CBC_", "", "POLY1305_SHA256", "POLY1305", "_", "-").Replace(cipher); exchange == "RSA" {
		return cipher
	}
	return strings.ReplaceAll(exchange, "_", "-") + "-" + cipher
}

func (h *handshakes) add(state *tls.ConnectionState) {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.Protocol, h.Version, h.Cipher = state.NegotiatedProtocol, tls.VersionName(state.Version), cipherName(state.CipherSuite)
	if state.DidResume {
		h.Resumed++
	} else {
		h.Full++
	}
}

func (h *handshakes) addEarly() {
	h.lock.Lock()
	defer h.lock.Unlock()
	*h.Early++
}
