// Package http1 is HTTP/1 for servers that are handed bytes as they arrive, in pieces of any size: the backends on event
// loops. It reads requests as RFC 9112 says, refuses what that tells a server to refuse, and keeps nothing of a request
// but what the answer depends on.
package http1

import (
	"bytes"
	"net/http"
)

// MaxHeader is the size in bytes of the largest header, request line included, that is read; trailers may be as large.
const MaxHeader = 64 << 10

// maxChunkLine is the size of the longest line with the size of a chunk and its extensions.
const maxChunkLine = 4 << 10

// Request is what of a request decides about its answer.
type Request struct {
	// HTTP10 tells HTTP/1.0 from HTTP/1.1.
	HTTP10 bool
	// Head is set for a HEAD request, which is answered without a body.
	Head bool
	// Close says that the connection is closed after the answer.
	Close bool
}

// Refusal is what is wrong with a request, and the status to answer it with; the connection is closed then.
type Refusal struct {
	Status int
	Why    string
}

// Error is what is wrong.
func (r *Refusal) Error() string { return r.Why }

func bad(why string) error { return &Refusal{http.StatusBadRequest, why} }

// Event is what a parser came upon.
type Event int

const (
	// More says that more bytes are needed.
	More Event = iota
	// Continue says that the client waits for the interim answer 100 before it sends its body.
	Continue
	// Done says that a request has arrived whole, with its body.
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

// Parser reads the requests of one connection, one after the other. The zero value is at the start of the first.
type Parser struct {
	// Request is the one that has arrived when Next says so.
	Request Request

	phase    phase
	scanned  int    // bytes of an incomplete header in which its end is not
	left     uint64 // bytes of the body, or of the chunk, that are still to come
	trailers int    // bytes of trailer lines
	waits    bool   // the client waits for an interim answer
}

// Next reads on in data, which begins where the bytes taken before ended. It says how many bytes it took and what it came
// upon; the other bytes are given again, with those that arrived after them. An error is a [*Refusal] and the end of the
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

// step takes the next part of a request. It takes nothing where that is not there whole.
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

// begin reads a header and says what comes after it.
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

// takeTrailer takes a line after the last chunk; the empty one ends the request.
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

// wholeLine is the first line of data, without its end; nil where that has not arrived.
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
