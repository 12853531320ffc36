package kittest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Response is a response as it was on the wire.
type Response struct {
	// Header is the text from the status line to the blank line, inclusive.
	Header string
	// Status is the code in the status line.
	Status int
	// Fields are the parsed header fields.
	Fields http.Header
	// Body is the body, Content-Length bytes.
	Body []byte

	length int // Content-Length
}

// parse parses the header.
func (r *Response) parse() error {
	parsed, err := http.ReadResponse(bufio.NewReader(strings.NewReader(r.Header)), nil)
	if err != nil {
		return err
	}
	r.Status, r.Fields = parsed.StatusCode, parsed.Header
	if r.length, err = strconv.Atoi(parsed.Header.Get("Content-Length")); err != nil {
		return fmt.Errorf("no Content-Length in %q", r.Header)
	}
	return nil
}

// Client is a connection on which tests write requests as bytes.
type Client struct {
	connection net.Conn
	reader     *bufio.Reader

	send    func(lines ...string) error
	receive func(wait time.Duration) (Response, error)
}

// Dial connects to an address of the form of -listen, for HTTP.
func Dial(t *testing.T, address string) *Client {
	t.Helper()
	network := "tcp"
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		network, address = "unix", path
	}
	connection, err := net.DialTimeout(network, address, Deadline)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	client := &Client{connection: connection, reader: bufio.NewReader(connection)}
	client.send, client.receive = client.sendHTTP, client.receiveHTTP
	return client
}

// Get requests /; over HTTP with Host and these header lines.
func (c *Client) Get(t *testing.T, lines ...string) Response {
	t.Helper()
	c.Send(t, lines...)
	return c.Receive(t)
}

// Send writes a request.
func (c *Client) Send(t *testing.T, lines ...string) {
	t.Helper()
	if err := c.send(lines...); err != nil {
		t.Fatal(err)
	}
}

// Receive reads one response.
func (c *Client) Receive(t *testing.T) Response {
	t.Helper()
	response, err := c.receive(Deadline)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// Silent reports whether the server sends nothing for this time.
func (c *Client) Silent(t *testing.T, wait time.Duration) bool {
	t.Helper()
	_, err := c.receive(wait)
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// Closed reports whether the server closes the connection and sends nothing more.
func (c *Client) Closed(t *testing.T) bool {
	t.Helper()
	_, err := c.receive(Deadline)
	return errors.Is(err, io.EOF)
}

// Write writes bytes unchanged.
func (c *Client) Write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(c.connection, text); err != nil {
		t.Fatal(err)
	}
}

// ReceiveHeader reads one HTTP response without a body, such as the response to HEAD.
func (c *Client) ReceiveHeader(t *testing.T) Response {
	t.Helper()
	response, err := c.receiveHeader(Deadline)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// Rest returns everything that the server sends until it closes the connection.
func (c *Client) Rest(t *testing.T) string {
	t.Helper()
	if err := c.connection.SetReadDeadline(time.Now().Add(Deadline)); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(c.reader)
	if err != nil {
		t.Fatalf("%v, after %q", err, rest)
	}
	return string(rest)
}

// exchange is Get for goroutines other than the test's own, which must not call t.Fatal.
func (c *Client) exchange() (Response, error) {
	if err := c.send(); err != nil {
		return Response{}, err
	}
	return c.receive(Deadline)
}

func (c *Client) sendHTTP(lines ...string) error {
	request := strings.Join(append([]string{"GET / HTTP/1.1", "Host: sut"}, lines...), "\r\n") + "\r\n\r\n"
	_, err := c.connection.Write([]byte(request))
	return err
}

func (c *Client) receiveHTTP(wait time.Duration) (Response, error) {
	response, err := c.receiveHeader(wait)
	if err != nil {
		return response, err
	}
	response.Body = make([]byte, response.length)
	_, err = io.ReadFull(c.reader, response.Body)
	return response, err
}

func (c *Client) receiveHeader(wait time.Duration) (response Response, err error) {
	if err := c.connection.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return Response{}, err
	}
	for !strings.HasSuffix(response.Header, "\r\n\r\n") {
		line, err := c.reader.ReadString('\n')
		if err != nil {
			return response, err
		}
		response.Header += line
	}
	return response, response.parse()
}
