package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const (
	// h2c is HTTP/2 without TLS, which no load has.
	h2c = "h2c"
	// maxProbed is the number of bytes of a response after which it is incomplete.
	maxProbed = 64 << 20
	// maxHead is the number of bytes of a response's head after which it is none.
	maxHead = 1 << 20
	// maxQuoted is the number of bytes that a message quotes of what is no HTTP.
	maxQuoted = 80
)

// probe says where requests are sent, and how.
type probe struct {
	address, protocol, name, authorities string
	timeout                              time.Duration
	shown                                int
}

// probeRequest is a request to probe, with a text that may be searched for in its body.
type probeRequest struct {
	request
	Contains string
}

// answer is the response to a request, as it is written to stdout.
type answer struct {
	Status      int         `json:"status"`
	HeaderBytes int         `json:"header_bytes"` // as HTTP/1.1 writes them, with the status line and the empty line
	Headers     [][2]string `json:"headers"`
	BodyBytes   int64       `json:"body_bytes"`
	BodySHA256  string      `json:"body_sha256"`
	BodyStart   []byte      `json:"body_start"`
	HasText     bool        `json:"has_text"`
	Complete    bool        `json:"complete"`
	Closes      bool        `json:"closes"`
	Negotiated  negotiated  `json:"negotiated"`
}

// negotiated is what the two ends of a connection agreed on; without TLS only the protocol.
type negotiated struct {
	Protocol string `json:"protocol"`
	Version  string `json:"tls_version,omitempty"`
	Cipher   string `json:"cipher,omitempty"`
	Key      string `json:"key,omitempty"`
}

// failure says why there is no response. Its kind is connect, tls, timeout, protocol, or host-state: a lack of this host.
type failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// runProbe sends each request of stdin once, over a connection of its own, and writes an answer to each. It ends with the
// first request that has none.
func runProbe(arguments []string) error {
	var p probe
	flags := flag.NewFlagSet("probe", flag.ExitOnError)
	flags.StringVar(&p.address, "address", "", "`host:port` of the server")
	flags.StringVar(&p.protocol, "protocol", http1, "`protocol`: http1, https1, h2, h2c or h3")
	flags.StringVar(&p.authorities, "ca", "", "PEM `file` with the certificates that verify the server's")
	flags.StringVar(&p.name, "server-name", "", "`name` to ask for in the handshake and to verify; by default the host of the address")
	flags.DurationVar(&p.timeout, "timeout", 10*time.Second, "time for each response")
	flags.IntVar(&p.shown, "shown", 0, "`bytes` of each body to write")
	_ = flags.Parse(arguments) // it exits
	var requests []probeRequest
	if err := json.NewDecoder(os.Stdin).Decode(&requests); err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	out := json.NewEncoder(os.Stdout)
	for i := range requests {
		found, err := p.ask(&requests[i])
		if err != nil {
			return out.Encode(map[string]failure{"failure": {kindOf(err), messageOf(err)}})
		}
		if err := out.Encode(found); err != nil {
			return err
		}
	}
	return nil
}

// ask sends a request and returns its answer.
func (p *probe) ask(r *probeRequest) (*answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	if p.protocol == h3 {
		return p.overHTTP3(ctx, r)
	}
	conn, state, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if p.protocol == h2c || (state != nil && state.NegotiatedProtocol == nextProtocols[h2]) {
		return p.overHTTP2(ctx, r, conn, state)
	}
	return p.overHTTP1(r, conn, state)
}

// dial opens a connection. Over TLS the server chooses between the protocol and HTTP/1.1, as with browsers.
func (p *probe) dial(ctx context.Context) (net.Conn, *tls.ConnectionState, error) {
	if p.protocol == http1 || p.protocol == h2c {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.address)
		return conn, nil, err
	}
	config, err := p.config(p.protocol, https1)
	if err != nil {
		return nil, nil, err
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, nil, err
	}
	state := conn.(*tls.Conn).ConnectionState()
	return conn, &state, nil
}

// config returns the configuration of TLS. It has every suite that this program knows: the server chooses.
func (p *probe) config(protocols ...string) (*tls.Config, error) {
	name := p.name
	if name == "" {
		var err error
		if name, _, err = net.SplitHostPort(p.address); err != nil {
			return nil, err
		}
	}
	pool, err := readAuthorities(p.authorities)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: pool, ServerName: name}
	for _, protocol := range protocols {
		if next := nextProtocols[protocol]; !slices.Contains(config.NextProtos, next) {
			config.NextProtos = append(config.NextProtos, next)
		}
	}
	for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		config.CipherSuites = append(config.CipherSuites, suite.ID)
	}
	return config, nil
}

func (p *probe) overHTTP1(r *probeRequest, conn net.Conn, state *tls.ConnectionState) (*answer, error) {
	if _, err := conn.Write(r.Bytes); err != nil {
		return nil, err
	}
	limited := &io.LimitedReader{R: conn, N: maxProbed}
	reader := bufio.NewReader(limited)
	for {
		head, err := readHead(reader)
		if err != nil {
			return nil, err
		}
		whole := bufio.NewReader(io.MultiReader(bytes.NewReader(head), reader))
		response, err := http.ReadResponse(whole, &http.Request{Method: r.Method})
		if err != nil {
			return nil, fmt.Errorf("no HTTP response: it began with %q", head[:min(len(head), maxQuoted)])
		}
		if response.StatusCode < http.StatusOK {
			continue // an interim one (RFC 9110, 15.2)
		}
		found := &answer{HeaderBytes: len(head), Headers: fieldsOf(head), Closes: response.Close}
		found.agreed(http1, state)
		err = p.read(found, r, response)
		found.Complete = found.Complete && limited.N > 0
		return found, err
	}
}

// readHead returns the bytes of a response up to the empty line.
func readHead(reader *bufio.Reader) (head []byte, err error) {
	for err == nil && len(head) <= maxHead {
		var line []byte
		line, err = reader.ReadBytes('\n')
		head = append(head, line...)
		if len(bytes.TrimSpace(line)) == 0 && err == nil {
			return head, nil
		}
	}
	var silence net.Error
	switch {
	case errors.As(err, &silence) && silence.Timeout():
		return nil, err
	case len(head) == 0:
		return nil, errors.New("no HTTP response: it was empty")
	}
	return nil, fmt.Errorf("no HTTP response: it began with %q", head[:min(len(head), maxQuoted)])
}

// fieldsOf returns the header fields of a head, in their order.
func fieldsOf(head []byte) [][2]string {
	fields := [][2]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(head)), "\n")[1:] {
		name, value, _ := strings.Cut(line, ":")
		fields = append(fields, [2]string{name, strings.TrimSpace(value)})
	}
	return fields
}

func (p *probe) overHTTP2(ctx context.Context, r *probeRequest, conn net.Conn, state *tls.ConnectionState) (*answer, error) {
	opened := func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	transport := &http.Transport{DialContext: opened, DialTLSContext: opened, DisableCompression: true, Protocols: new(http.Protocols)}
	defer transport.CloseIdleConnections()
	transport.Protocols.SetHTTP2(state != nil)
	transport.Protocols.SetUnencryptedHTTP2(state == nil)
	scheme := "https"
	if state == nil {
		scheme = "http"
	}
	return p.multiplexed(ctx, r, transport, scheme, state)
}

func (p *probe) overHTTP3(ctx context.Context, r *probeRequest) (*answer, error) {
	config, err := p.config(h3)
	if err != nil {
		return nil, err
	}
	conn, err := quic.DialAddr(ctx, p.address, config, &quic.Config{MaxIncomingStreams: -1})
	if err != nil {
		var silence net.Error
		if errors.As(err, &silence) && silence.Timeout() {
			return nil, fmt.Errorf("no answer from its UDP port, which may be blocked on the way: %w", os.ErrDeadlineExceeded)
		}
		return nil, err
	}
	defer conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
	state := conn.ConnectionState().TLS
	return p.multiplexed(ctx, r, (&http3.Transport{DisableCompression: true}).NewClientConn(conn), "https", &state)
}

// multiplexed sends a request over HTTP/2 or HTTP/3. The order of its fields is not known; they are sorted by name.
func (p *probe) multiplexed(ctx context.Context, r *probeRequest, transport http.RoundTripper, scheme string, state *tls.ConnectionState) (*answer, error) {
	if err := r.parse(); err != nil {
		return nil, err
	}
	r.parsed.URL.Scheme = scheme
	response, err := transport.RoundTrip((&multiplexed{}).outgoing(ctx, &r.request))
	if err != nil {
		return nil, err
	}
	status := fmt.Sprintf("HTTP/1.1 %d %s\r\n\r\n", response.StatusCode, http.StatusText(response.StatusCode))
	found := &answer{Headers: [][2]string{}, HeaderBytes: len(status)}
	for name, values := range response.Header {
		for _, value := range values {
			found.Headers = append(found.Headers, [2]string{strings.ToLower(name), value})
			found.HeaderBytes += len(name) + len(value) + len(": \r\n")
		}
	}
	slices.SortStableFunc(found.Headers, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	found.agreed(h2c, state)
	return found, p.read(found, r, response)
}

// read reads the body of a response. One that ends early is incomplete; only silence is an error.
func (p *probe) read(found *answer, r *probeRequest, response *http.Response) error {
	var body bytes.Buffer
	digest := sha256.New()
	_, err := io.Copy(io.MultiWriter(&body, digest), io.LimitReader(response.Body, maxProbed))
	var silence net.Error
	if errors.As(err, &silence) && silence.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the response took too long: %w", err)
	}
	found.Status = response.StatusCode
	found.BodyBytes = int64(body.Len())
	found.BodySHA256 = hex.EncodeToString(digest.Sum(nil))
	found.BodyStart = append([]byte{}, body.Bytes()[:min(body.Len(), p.shown)]...) // null is no text
	found.HasText = bytes.Contains(body.Bytes(), []byte(r.Contains))
	found.Complete = err == nil && body.Len() < maxProbed
	return nil
}

// agreed records the protocol of a connection and its TLS; plain is the protocol without TLS.
func (a *answer) agreed(plain string, state *tls.ConnectionState) {
	a.Negotiated.Protocol = plain
	if state == nil {
		return
	}
	a.Negotiated = negotiated{Protocol: https1, Version: strings.TrimPrefix(tls.VersionName(state.Version), "TLS "),
		Cipher: cipherName(state.CipherSuite), Key: keyKind(state.PeerCertificates[0])}
	for protocol, next := range nextProtocols {
		if next == state.NegotiatedProtocol {
			a.Negotiated.Protocol = protocol
		}
	}
}

// keyKind returns the kind of a certificate's key, as rsa-2048 or ecdsa-p256.
func keyKind(certificate *x509.Certificate) string {
	switch key := certificate.PublicKey.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("rsa-%d", key.N.BitLen())
	case *ecdsa.PublicKey:
		return fmt.Sprintf("ecdsa-p%d", key.Curve.Params().BitSize)
	}
	return ""
}

func kindOf(err error) string {
	var silence net.Error
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var operation *net.OpError
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		return "host-state"
	case errors.As(err, &silence) && silence.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &verification), errors.As(err, &record), errors.As(err, &alert):
		return "tls"
	case errors.As(err, &operation) && operation.Op == "dial":
		return "connect"
	}
	return "protocol"
}

// messageOf returns the error of the kernel where there is one, else the whole message.
func messageOf(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	return err.Error()
}
