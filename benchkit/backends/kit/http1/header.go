package http1

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
)

var (
	crlf      = []byte("\r\n")
	blankLine = []byte("\r\n\r\n")
)

// parsed is the meaning of a header.
type parsed struct {
	Request
	length  uint64
	chunked bool
	waits   bool
}

// fields collects the fields of a header before their combination is checked.
type fields struct {
	hosts      int
	length     []byte
	hasLength  bool
	chunked    bool
	closes     bool
	keepsAlive bool
	waits      bool
}

// parseHeader parses a request line and the field lines after it, each with its line end.
func parseHeader(lines []byte) (parsed, error) {
	line, rest, _ := bytes.Cut(lines, crlf)
	request, err := parseRequestLine(line)
	if err != nil {
		return parsed{}, err
	}
	var said fields
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, crlf)
		name, value, err := parseField(line)
		if err == nil {
			err = said.add(name, value)
		}
		if err != nil {
			return parsed{}, err
		}
	}
	return said.together(request)
}

// together checks the combination of all fields and applies it to a request.
func (f *fields) together(request Request) (parsed, error) {
	switch {
	case f.hosts > 1 || f.hosts == 0 && !request.HTTP10: // RFC 9112, 3.2
		return parsed{}, bad("there must be one Host")
	case f.chunked && f.hasLength: // 6.1: a sign of request smuggling
		return parsed{}, bad("both Transfer-Encoding and Content-Length")
	case f.chunked && request.HTTP10: // 6.1: the framing is faulty
		return parsed{}, bad("Transfer-Encoding in HTTP/1.0")
	}
	request.Close = f.closes || request.HTTP10 && !f.keepsAlive // 9.3
	header := parsed{Request: request, chunked: f.chunked, waits: f.waits && !request.HTTP10}
	if f.hasLength {
		length, err := strconv.ParseUint(string(f.length), 10, 63)
		if err != nil {
			return parsed{}, bad("Content-Length is no length")
		}
		header.length = length
	}
	return header, nil
}

// add records a field if it affects the framing of the request or the use of the connection.
func (f *fields) add(name, value []byte) error {
	switch {
	case is(name, "host"):
		f.hosts++
		if bytes.ContainsAny(value, " \t") {
			return bad("Host is no host")
		}
	case is(name, "content-length"):
		if !digits(value) || f.hasLength && !bytes.Equal(value, f.length) {
			return bad("Content-Length is no length, or two")
		}
		f.length, f.hasLength = value, true
	case is(name, "transfer-encoding"):
		if f.chunked || !is(value, "chunked") {
			return &Refusal{http.StatusNotImplemented, "a Transfer-Encoding other than chunked"}
		}
		f.chunked = true
	case is(name, "connection"):
		for len(value) > 0 {
			var option []byte
			option, value, _ = bytes.Cut(value, []byte(","))
			option = bytes.Trim(option, " \t")
			f.closes = f.closes || is(option, "close")
			f.keepsAlive = f.keepsAlive || is(option, "keep-alive")
		}
	case is(name, "expect"):
		if !is(value, "100-continue") {
			return &Refusal{http.StatusExpectationFailed, "an expectation other than 100-continue"}
		}
		f.waits = true
	}
	return nil
}

// parseRequestLine parses `GET / HTTP/1.1` (RFC 9112, 3).
func parseRequestLine(line []byte) (Request, error) {
	method, rest, found := bytes.Cut(line, []byte(" "))
	target, version, foundToo := bytes.Cut(rest, []byte(" "))
	if string(method) == http.MethodConnect { // an answer of 200 would open a tunnel (RFC 9110, 9.3.6)
		return Request{}, &Refusal{http.StatusNotImplemented, "no tunnels here"}
	}
	if !found || !foundToo || !token(method) || !isTarget(target) {
		return Request{}, bad("no request line")
	}
	if len(version) != len("HTTP/1.1") || string(version[:5]) != "HTTP/" || version[6] != '.' ||
		!digits(version[5:6]) || !digits(version[7:]) {
		return Request{}, bad("no version of HTTP")
	}
	if version[5] != '1' {
		return Request{}, &Refusal{http.StatusHTTPVersionNotSupported, "another version than HTTP/1"}
	}
	return Request{HTTP10: version[7] == '0', Head: string(method) == http.MethodHead}, nil
}

// parseField parses `Name: value`; an obsolete folded line, which begins with a blank, is rejected (RFC 9112, 5.1, 5.2).
func parseField(line []byte) (name, value []byte, err error) {
	name, value, found := bytes.Cut(line, []byte(":"))
	if !found || !token(name) {
		return nil, nil, bad("no header field")
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, nil, bad("a control character in a header field")
		}
	}
	return name, bytes.Trim(value, " \t"), nil
}

// parseChunkSize parses the hexadecimal size of a chunk and ignores extensions after it (RFC 9112, 7.1).
func parseChunkSize(line []byte) (uint64, error) {
	number, extension, _ := bytes.Cut(line, []byte(";"))
	number = bytes.TrimRight(number, " \t")
	size, err := strconv.ParseUint(string(number), 16, 63)
	if err != nil || !hexadecimal(number) {
		return 0, bad("a chunk without a size")
	}
	for _, c := range extension {
		if c < ' ' && c != '\t' || c == 0x7f {
			return 0, bad("a control character in a chunk's extension")
		}
	}
	return size, nil
}

// is reports whether a text equals a word in lower-case ASCII, ignoring case.
func is(text []byte, word string) bool {
	if len(text) != len(word) {
		return false
	}
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// isTarget reports whether a text can be a request target: a path, a URL, or `*` (RFC 9112, 3.2). The servers ignore the
// target, so path and URL are not parsed further.
func isTarget(text []byte) bool {
	for _, c := range text {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return len(text) > 0 && (text[0] == '/' || string(text) == "*" || bytes.Contains(text, []byte("://")))
}

func token(text []byte) bool {
	for _, c := range text {
		if c > math.MaxInt8 || !inToken[c] {
			return false
		}
	}
	return len(text) > 0
}

func digits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0
}

func hexadecimal(text []byte) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return len(text) > 0
}

// inToken reports whether a character is allowed in a field name or method (RFC 9110, 5.6.2).
var inToken = func() (table [128]bool) {
	for _, c := range "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		table[c] = true
	}
	return table
}()
