package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// request is a request as HTTP/1.1 sends it, with its method, on which the form of the response depends.
type request struct {
	Method string
	Bytes  []byte
	// Class is the number of the class that it is counted in, from 1; 0: none.
	Class uint8
	// Size has the fewest and the most bytes that the body of its response should have; nil: any.
	Size *[2]int64

	parsed *http.Request // for other versions
	body   []byte
}

// hasOtherSize is true for a body of this size that should have another.
func (r *request) hasOtherSize(received int64) bool {
	return r.Size != nil && (received < r.Size[0] || received > r.Size[1])
}

// exchanger sends requests over a connection, and connects when it has to.
type exchanger interface {
	connect(deadline time.Time) error
	exchange(r *request, deadline time.Time) (status int, received int64, err error)
	close() error
}

// connection sends one request after the other to an address, and connects when it has to.
type connection struct {
	address   string
	keepalive bool
	tls       *tls.Config // nil without TLS
	conn      net.Conn
	reader    *bufio.Reader
}

// errWaited is the error of a request whose time was over before a connection was free, and errUnanswered of one whose
// connection ended before the first byte of a response.
var (
	errWaited     = fmt.Errorf("no connection was free: %w", os.ErrDeadlineExceeded)
	errUnanswered = errors.New("no response")
)

// exchange sends a request and reads its response, and returns its status and the bytes of its body. Like net/http, it
// replaces a kept connection that the server has closed meanwhile, for methods that can be repeated (RFC 9110, 9.2.2).
func (c *connection) exchange(r *request, deadline time.Time) (status int, received int64, err error) {
	if time.Until(deadline) <= 0 {
		return 0, 0, errWaited
	}
	isRepeatable := c.conn != nil && r.Method != http.MethodPost && r.Method != http.MethodPatch
	status, received, err = c.try(r, deadline)
	if isRepeatable && errors.Is(err, errUnanswered) && !errors.Is(err, os.ErrDeadlineExceeded) {
		return c.try(r, deadline)
	}
	return status, received, err
}

func (c *connection) try(r *request, deadline time.Time) (status int, received int64, err error) {
	if err := c.connect(deadline); err != nil {
		return 0, 0, err
	}
	response, err := c.send(r, deadline)
	if err == nil {
		status = response.StatusCode
		received, err = io.Copy(io.Discard, response.Body)
	}
	if err != nil || response.Close || !c.keepalive {
		err = errors.Join(err, c.conn.Close())
		c.conn = nil
	}
	if err != nil {
		status = 0
	}
	return status, received, err
}

// send sends a request and returns its final response, with the body still to be read.
func (c *connection) send(r *request, deadline time.Time) (*http.Response, error) {
	err := c.conn.SetDeadline(deadline)
	if err == nil {
		_, err = c.conn.Write(r.Bytes)
	}
	if err == nil {
		_, err = c.reader.Peek(1)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnanswered, err)
	}
	for {
		response, err := http.ReadResponse(c.reader, &http.Request{Method: r.Method})
		if err != nil || response.StatusCode >= http.StatusOK {
			return response, err
		}
	}
}

// connect opens the connection where it is not open.
func (c *connection) connect(deadline time.Time) error {
	if c.conn != nil {
		return nil
	}
	dialer := &net.Dialer{Deadline: deadline}
	dial := dialer.Dial
	if c.tls != nil {
		dial = func(network, address string) (net.Conn, error) {
			return tls.DialWithDialer(dialer, network, address, c.tls)
		}
	}
	conn, err := dial("tcp", c.address)
	if err == nil {
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	return err
}

func (c *connection) close() error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}
