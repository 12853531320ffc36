// Package http1 implements HTTP/1 for servers that receive bytes in pieces of any size: the backends on event loops. It
// parses requests by RFC 9112, rejects those that the RFC tells a server to reject, and only keeps the parts of a request
// on which the response depends.
package http1

import (
	"bytes"
	"net/http"
)

// MaxHeader is the size limit in bytes of a header with its request line, and of the trailers.
const MaxHeader = 64 << 10

// maxChunkLine is the size limit in bytes of a line with the size of a chunk and its extensions.
const maxChunkLine = 4 << 10

// Request has the properties of a request on which the response depends.
type Request struct {
	// HTTP10 is set for HTTP/1.0, and not for HTTP/1.1.
	HTTP10 bool
	// Head is set for a HEAD request, whose response has no body.
	Head bool
	// Close is set if the connection is closed after the response.
	Close bool
}

// Refusal is the error of an invalid request, and the status of its response, after which the connection is closed.
type Refusal struct {
	Status int
	Why    string
}

// Error returns the reason.
func (r *Refusal) Error() string { return r.Why }

func bad(why string) error { return &Refusal{http.StatusBadRequest, why} }

// Event is the result of a step of the parser.
type Event int

const (
	// More means that more bytes are needed.
	More Event = iota
	// Continue means that the client waits for the interim response 100 before it sends its body.
	Continue
	// Done means that a request is complete, with its body.
	Done
)

// phase is the part of a request that comes next.
type phase int

const (
	header phase = iota
	body
	chunkSize
	chunk
	chunkEnd
	trailer
	complete
)

// Parser parses the requests of one connection in sequence. The zero value is at the start of the first.
type Parser struct {
	// Request is the completed request after Next has returned Done.
	Request Request

	phase    phase
	scanned  int    // bytes of an incomplete header that were searched for its end
	left     uint64 // remaining bytes of the body, or of the chunk
	trailers int    // bytes of trailer lines
	waits    bool   // the client waits for an interim response
}

// Next parses data, which begins after the bytes consumed before, and returns the number of bytes consumed and the event.
// The caller passes the other bytes again, with those that arrive after them. An error is a [*Refusal] and ends the
// connection.
func (p *Parser) Next(data []byte) (taken int, event Event, err error) {
	for p.phase != complete {
		n, err := p.step(data[taken:])
		taken += n
		if err != nil || n == 0 {
			return taken, More, err
		}
		if p.waits {
			p.waits = false
			if taken == len(data) { // a client that has begun to send its body does not wait
				return taken, Continue, nil
			}
		}
	}
	p.phase = header
	return taken, Done, nil
}

// step consumes the next part of a request, or nothing if that is incomplete.
func (p *Parser) step(data []byte) (int, error) {
	switch p.phase {
	case header:
		return p.takeHeader(data)
	case body:
		return p.takeBytes(data, complete), nil
	case chunk:
		return p.takeBytes(data, chunkEnd), nil
	case chunkSize:
		return p.takeChunkSize(data)
	case chunkEnd:
		return p.takeChunkEnd(data)
	default:
		return p.takeTrailer(data)
	}
}

func (p *Parser) takeHeader(data []byte) (int, error) {
	if bytes.HasPrefix(data, crlf) { // RFC 9112, 2.2: an empty line before the request line is ignored
		return len(crlf), nil
	}
	from := max(0, p.scanned-len(blankLine)+1)
	at := bytes.Index(data[from:], blankLine)
	if size := from + at + len(blankLine); at >= 0 && size <= MaxHeader {
		p.scanned = 0
		return size, p.begin(data[:size-len(crlf)])
	}
	if at >= 0 || len(data) > MaxHeader {
		return 0, &Refusal{http.StatusRequestHeaderFieldsTooLarge, "the header is too large"}
	}
	p.scanned = len(data)
	return 0, nil
}

// begin parses a header and sets the phase after it.
func (p *Parser) begin(lines []byte) error {
	parsed, err := parseHeader(lines)
	if err != nil {
		return err
	}
	p.Request = parsed.Request
	p.left = parsed.length
	switch {
	case parsed.chunked:
		p.phase = chunkSize
	case p.left > 0:
		p.phase = body
	default:
		p.phase = complete
		return nil
	}
	p.waits = parsed.waits
	return nil
}

func (p *Parser) takeBytes(data []byte, next phase) int {
	n := min(p.left, uint64(len(data)))
	if p.left -= n; p.left == 0 {
		p.phase = next
	}
	return int(n)
}

func (p *Parser) takeChunkSize(data []byte) (int, error) {
	line, err := wholeLine(data, maxChunkLine)
	if line == nil || err != nil {
		return 0, err
	}
	p.left, err = parseChunkSize(line)
	if p.phase = chunk; p.left == 0 {
		p.phase, p.trailers = trailer, 0
	}
	return len(line) + len(crlf), err
}

func (p *Parser) takeChunkEnd(data []byte) (int, error) {
	if len(data) < len(crlf) {
		return 0, nil
	}
	if !bytes.HasPrefix(data, crlf) {
		return 0, bad("a chunk is longer than its size")
	}
	p.phase = chunkSize
	return len(crlf), nil
}

// takeTrailer consumes a line after the last chunk; an empty line ends the request.
func (p *Parser) takeTrailer(data []byte) (int, error) {
	line, err := wholeLine(data, MaxHeader-p.trailers)
	if line == nil || err != nil {
		return 0, err
	}
	if len(line) == 0 {
		p.phase = complete
	} else if _, _, err := parseField(line); err != nil {
		return 0, err
	}
	p.trailers += len(line) + len(crlf)
	return len(line) + len(crlf), nil
}

// wholeLine returns the first line of data without its line end; nil if it is incomplete.
func wholeLine(data []byte, longest int) ([]byte, error) {
	at := bytes.Index(data, crlf)
	if at > longest || at < 0 && len(data) > longest {
		return nil, bad("a line of the body's framing is too long")
	}
	if at < 0 {
		return nil, nil
	}
	return data[:at:at], nil
}
