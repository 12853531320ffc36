package kit

import (
	"crypto/tls"
	"encoding/json"
	"expvar"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
)

// Protocols of a backend that speaks TLS or HTTP/2, as -protocol has them.
const (
	HTTP1  = "http1"  // HTTP/1.1
	HTTPS1 = "https1" // HTTP/1.1 over TLS
	H2     = "h2"     // HTTP/2 over TLS
	H2C    = "h2c"    // HTTP/2 without TLS, with prior knowledge (RFC 9113, 3.3)
	H3     = "h3"     // HTTP/3, over QUIC (RFC 9114)
)

// TLS is the protocol of a backend, with the options of its TLS. Backends that speak more than HTTP/1.1 pass
// [TLS.Define] to [Main].
type TLS struct {
	// Protocol is one of the constants above.
	Protocol string
	// Certificate and Key are the paths of PEM files.
	Certificate, Key string
	// Version is the only version that is negotiated: 1.2 or 1.3.
	Version string
	// Ciphers are the allowed cipher suites of TLS 1.2 by OpenSSL's names, with colons between them; empty: Go's own.
	Ciphers string
	// Resumption is whether the server issues session tickets.
	Resumption bool
	// EarlyData is whether a server of HTTP/3 takes requests within resumed handshakes (0-RTT).
	EarlyData bool

	full, resumed atomic.Uint64
}

// Define defines the flags of these protocols.
func (t *TLS) Define(protocols ...string) func(*flag.FlagSet) {
	return func(flags *flag.FlagSet) {
		t.Protocol, t.Version, t.Resumption = HTTP1, "1.3", true
		flags.Func("protocol", "`protocol` to speak: "+strings.Join(protocols, ", "), func(value string) error {
			for _, protocol := range protocols {
				if value == protocol {
					t.Protocol = value
					return nil
				}
			}
			return fmt.Errorf("expected %s", strings.Join(protocols, ", "))
		})
		flags.StringVar(&t.Certificate, "tls-certificate", "", "`file` with the certificate and its chain (PEM)")
		flags.StringVar(&t.Key, "tls-key", "", "`file` with the private key (PEM)")
		flags.Func("tls-version", "`version` of TLS, the only one that is negotiated: 1.2 or 1.3", func(value string) error {
			t.Version = value
			_, err := versionNumber(value)
			return err
		})
		flags.StringVar(&t.Ciphers, "tls-ciphers", "", "cipher `suites` of TLS 1.2 by OpenSSL's names, with colons")
		flags.BoolVar(&t.Resumption, "tls-resumption", true, "whether to issue session tickets")
		flags.BoolVar(&t.EarlyData, "tls-early-data", false, "HTTP/3: whether to take requests within resumed handshakes (0-RTT)")
	}
}

// IsOn reports whether the protocol has TLS.
func (t *TLS) IsOn() bool { return t.Protocol == HTTPS1 || t.Protocol == H2 || t.Protocol == H3 }

// Config returns the configuration of crypto/tls, and has the admin page count the handshakes. It may be called once.
func (t *TLS) Config() (*tls.Config, error) {
	version, err := versionNumber(t.Version)
	if err != nil {
		return nil, err
	}
	suites, err := cipherSuites(t.Ciphers)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
	if err != nil {
		return nil, err
	}
	next := t.Protocol // which is its name in the handshake, too
	if t.Protocol == HTTPS1 {
		next = "http/1.1"
	}
	expvar.Publish("tls", expvar.Func(func() any {
		return json.RawMessage(fmt.Sprintf(`{"handshakes":%d,"resumed":%d}`, t.full.Load()+t.resumed.Load(), t.resumed.Load()))
	}))
	return &tls.Config{
		Certificates:           []tls.Certificate{pair},
		MinVersion:             version,
		MaxVersion:             version,
		CipherSuites:           suites,
		NextProtos:             []string{next},
		SessionTicketsDisabled: !t.Resumption,
		VerifyConnection: func(state tls.ConnectionState) error {
			if state.DidResume {
				t.resumed.Add(1)
			} else {
				t.full.Add(1)
			}
			return nil
		},
	}, nil
}

func versionNumber(version string) (uint16, error) {
	switch version {
	case "1.2":
		return tls.VersionTLS12, nil
	case "1.3":
		return tls.VersionTLS13, nil
	}
	return 0, fmt.Errorf("expected 1.2 or 1.3, found %q", version)
}

// cipherSuites returns the suites of these OpenSSL names; nil for none, which leaves the choice to crypto/tls.
func cipherSuites(names string) ([]uint16, error) {
	if names == "" {
		return nil, nil
	}
	known := map[string]uint16{}
	for _, suite := range tls.CipherSuites() {
		known[openSSLName(suite.Name)] = suite.ID
	}
	var suites []uint16
	for _, name := range strings.Split(names, ":") {
		suite, found := known[name]
		if !found {
			return nil, fmt.Errorf("Go has no cipher suite %q that it considers secure", name)
		}
		suites = append(suites, suite)
	}
	return suites, nil
}

// openSSLName returns OpenSSL's name of a suite of TLS 1.2 (ciphers(1)): ECDHE-RSA-AES128-GCM-SHA256 for
// TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256.
func openSSLName(name string) string {
	name = strings.TrimPrefix(name, "TLS_")
	name = strings.NewReplacer("_WITH_", "-", "AES_128", "AES128", "AES_256", "AES256", "_", "-").Replace(name)
	return strings.Replace(name, "CHACHA20-POLY1305-SHA256", "CHACHA20-POLY1305", 1)
}
