package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// multiplexed is a connection of HTTP/2 or HTTP/3, on which several requests can be in flight. It connects when it has to.
type multiplexed struct {
	open      func(context.Context) (opened, error)
	keepalive bool
	isEarly   bool

	lock sync.Mutex
	conn opened
}

// opened is an open connection; Err says why it takes no more requests.
type opened interface {
	http.RoundTripper
	Err() error
	Close() error
}

// exchange sends a request and reads its response, and returns its status and the bytes of its body. A kept connection that
// has ended meanwhile is replaced, for methods that can be repeated (RFC 9110, 9.2.2).
func (m *multiplexed) exchange(r *request, deadline time.Time) (status int, received int64, err error) {
	if time.Until(deadline) <= 0 {
		return 0, 0, errWaited
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	conn, isNew, err := m.connection(ctx)
	if err != nil {
		return 0, 0, err
	}
	status, received, err = m.send(ctx, conn, r)
	isRepeatable := r.Method != http.MethodPost && r.Method != http.MethodPatch
	if err != nil && !isNew && isRepeatable && conn.Err() != nil && ctx.Err() == nil {
		if conn, _, err = m.connection(ctx); err == nil {
			status, received, err = m.send(ctx, conn, r)
		}
	}
	if !m.keepalive {
		_ = conn.Close() // of a connection that may have failed: the error of the request counts
	}
	return status, received, err
}

func (m *multiplexed) connect(deadline time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	_, _, err := m.connection(ctx)
	return err
}

// connection returns the open connection, or a new one; without keepalive always a new one, which the caller closes.
func (m *multiplexed) connection(ctx context.Context) (conn opened, isNew bool, err error) {
	if !m.keepalive {
		conn, err = m.open(ctx)
		return conn, true, err
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.conn != nil && m.conn.Err() == nil {
		return m.conn, false, nil
	}
	_ = m.close()
	conn, err = m.open(ctx)
	if err == nil {
		m.conn = conn
	}
	return conn, true, err
}

// close closes a kept connection: the end of a program tells servers nothing of those of QUIC.
func (m *multiplexed) close() error {
	if m.conn == nil {
		return nil
	}
	return m.conn.Close()
}

func (m *multiplexed) send(ctx context.Context, conn opened, r *request) (status int, received int64, err error) {
	response, err := conn.RoundTrip(m.outgoing(ctx, r))
	if err != nil {
		return 0, 0, err
	}
	received, err = io.Copy(io.Discard, response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return 0, received, err
	}
	return response.StatusCode, received, nil
}

// outgoing returns a request as net/http has it.
func (m *multiplexed) outgoing(ctx context.Context, r *request) *http.Request {
	outgoing := r.parsed.WithContext(ctx)
	if len(r.body) > 0 {
		outgoing.Body = io.NopCloser(bytes.NewReader(r.body))
	}
	if m.isEarly {
		switch r.Method { // the others wait for the end of the handshake: they must not be repeated by an attacker
		case http.MethodGet:
			outgoing.Method = http3.MethodGet0RTT
		case http.MethodHead:
			outgoing.Method = http3.MethodHead0RTT
		}
	}
	return outgoing
}

// parse reads the bytes of a request of HTTP/1.1, whose fields those of other versions are.
func (r *request) parse() error {
	parsed, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(r.Bytes)))
	if err != nil {
		return err
	}
	if r.body, err = io.ReadAll(parsed.Body); err != nil {
		return err
	}
	parsed.URL.Scheme, parsed.URL.Host, parsed.RequestURI, parsed.Body = "https", parsed.Host, "", nil
	if parsed.Header["User-Agent"] == nil {
		parsed.Header["User-Agent"] = []string{""} // none, as in HTTP/1.1
	}
	r.parsed = parsed
	return nil
}

// openHTTP2 returns a function that opens connections of HTTP/2 to an address.
func openHTTP2(address string, config *tls.Config) func(context.Context) (opened, error) {
	transport := &http.Transport{TLSClientConfig: config, DisableCompression: true, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP2(true)
	return func(ctx context.Context) (opened, error) { return transport.NewClientConn(ctx, "https", address) }
}

// openHTTP3 returns a function that opens connections of HTTP/3 to an address, one after the other from the same UDP port.
func openHTTP3(address string, config *tls.Config, isEarly bool, counts *handshakes) (func(context.Context) (opened, error), error) {
	remote, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, err
	}
	transport := &quic.Transport{Conn: socket}
	dial := transport.Dial
	if isEarly {
		dial = transport.DialEarly
	}
	layer := &http3.Transport{DisableCompression: true}
	return func(ctx context.Context) (opened, error) {
		conn, err := dial(ctx, remote, config, &quic.Config{MaxIncomingStreams: -1, KeepAlivePeriod: keepAlive})
		if err != nil {
			var silence net.Error // of quic-go after 5 s, of the context after the load's timeout
			if errors.As(err, &silence) && silence.Timeout() {
				err = fmt.Errorf("dial quic: no answer from its UDP port: %w", os.ErrDeadlineExceeded)
			}
			return nil, err
		}
		return &quicConnection{layer.NewClientConn(conn), conn, counts}, nil
	}, nil
}

// keepAlive is the time without requests after which a connection shows that it lives: servers close idle ones after 30 s.
const keepAlive = 10 * time.Second

// quicConnection is an open connection of HTTP/3.
type quicConnection struct {
	http.RoundTripper
	conn   *quic.Conn
	counts *handshakes
}

func (q *quicConnection) Err() error { return context.Cause(q.conn.Context()) }

func (q *quicConnection) Close() error {
	if q.counts.Early != nil && q.conn.ConnectionState().Used0RTT {
		q.counts.addEarly()
	}
	return q.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
}
