package kittest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"benchkit/backends/kit"
)

// Numbers of the FastCGI Specification 1.0, sections 3.3, 5 and 8.
const (
	fcgiVersion      = 1
	fcgiBegin        = 1
	fcgiEnd          = 3
	fcgiParams       = 4
	fcgiStdin        = 5
	fcgiStdout       = 6
	fcgiResponder    = 1
	fcgiKeep         = 1
	fcgiRequest      = 1 // the id of the request: a connection has one request at a time
	fcgiRecordHeader = 8
)

// DialFastCGI connects as nginx does, with the flag that keeps the connection open.
func DialFastCGI(t *testing.T, address string) *Client { return dialFastCGI(t, address, fcgiKeep) }

func dialFastCGI(t *testing.T, address string, flags byte) *Client {
	t.Helper()
	client := Dial(t, address)
	wire := &fastCGI{connection: client.connection, reader: client.reader, flags: flags}
	client.send, client.receive = wire.send, wire.receive
	return client
}

// fastCGI is the client's side of a FastCGI connection.
type fastCGI struct {
	connection net.Conn
	reader     *bufio.Reader
	flags      byte
}

// send sends a request for / with the parameters that a server needs.
func (f *fastCGI) send(...string) error {
	var request bytes.Buffer
	record(&request, fcgiBegin, []byte{0, fcgiResponder, f.flags, 0, 0, 0, 0, 0})
	var parameters bytes.Buffer
	for _, parameter := range [][2]string{
		{"REQUEST_METHOD", "GET"}, {"REQUEST_URI", "/"}, {"SCRIPT_NAME", ""}, {"QUERY_STRING", ""},
		{"SERVER_PROTOCOL", "HTTP/1.1"}, {"HTTP_HOST", "sut"}, {"REMOTE_ADDR", "127.0.0.1"}, {"REMOTE_PORT", "1"},
	} {
		parameters.Write([]byte{byte(len(parameter[0])), byte(len(parameter[1]))})
		parameters.WriteString(parameter[0] + parameter[1])
	}
	record(&request, fcgiParams, parameters.Bytes())
	record(&request, fcgiParams, nil)
	record(&request, fcgiStdin, nil)
	_, err := f.connection.Write(request.Bytes())
	return err
}

func record(to *bytes.Buffer, kind byte, content []byte) {
	to.Write([]byte{fcgiVersion, kind, 0, fcgiRequest})
	to.Write(binary.BigEndian.AppendUint16(nil, uint16(len(content))))
	to.Write([]byte{0, 0})
	to.Write(content)
}

// receive reads a response up to the end of the request.
func (f *fastCGI) receive(wait time.Duration) (Response, error) {
	if err := f.connection.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return Response{}, err
	}
	var out bytes.Buffer
	for {
		var header [fcgiRecordHeader]byte
		if _, err := io.ReadFull(f.reader, header[:]); err != nil {
			return Response{}, err
		}
		content := make([]byte, int(binary.BigEndian.Uint16(header[4:]))+int(header[6]))
		if _, err := io.ReadFull(f.reader, content); err != nil {
			return Response{}, err
		}
		switch content = content[:len(content)-int(header[6])]; header[1] {
		case fcgiStdout:
			out.Write(content)
		case fcgiEnd:
			return passedOn(out.String())
		default:
			return Response{}, fmt.Errorf("a record of type %d: %q", header[1], content)
		}
	}
}

// passedOn returns the response that a web server makes of an application's output: the field Status becomes the status
// line.
func passedOn(out string) (Response, error) {
	status, rest, found := strings.Cut(out, "\r\n")
	header, body, foundToo := strings.Cut(rest, "\r\n\r\n")
	reason, isStatus := strings.CutPrefix(status, "Status: ")
	if !found || !foundToo || !isStatus {
		return Response{}, fmt.Errorf("not the output of a CGI program: %.200q", out)
	}
	response := Response{Header: "HTTP/1.1 " + reason + "\r\n" + header + "\r\n\r\n"}
	if err := response.parse(); err != nil {
		return response, err
	}
	response.Body = []byte(body)
	return response, nil
}

func (s *suite) keepsFastCGI(t *testing.T) {
	server := Start(t, "-listen", loopback)
	client := DialFastCGI(t, server.Address)
	for range 3 {
		s.checkBytes(t, client.Get(t))
	}
	goes := dialFastCGI(t, server.Address, 0)
	if response := goes.Get(t); string(response.Body) != kit.Hello {
		t.Errorf("body %q", response.Body)
	}
	if _, err := goes.receive(Deadline); !errors.Is(err, io.EOF) {
		t.Errorf("a connection without the flag that keeps it open: %v", err)
	}
}
