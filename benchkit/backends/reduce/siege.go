package main

import (
	"bytes"
	"io"
)

// siege -v prints one line for each response when it arrives:
//
//	HTTP/1.1 200     0.01 secs:      12 bytes ==> GET  /
//
// by default in colours, optionally with a time stamp (timestamp = true) and the number of the user (display-id) in front,
// and with (C) after the status if its cache answered after a 304. Times are ticks of 10 ms. Failed requests have no such
// line. This program passes all other lines on unchanged.

const (
	siegeTick = 10_000_000 // ns
	escape    = 0x1B
)

var (
	siegeSecs   = []byte(" secs:")
	siegeBytes  = []byte(" bytes ==> ")
	siegeCached = []byte("(C)")
	siegeHTTP   = []byte("HTTP/")
)

func readSiege(in io.Reader, to *tally) (ending, error) {
	to.bytesIn = &sum{}
	return eachLine(in, func(line []byte, ended bool) {
		shown := line
		if bytes.IndexByte(line, escape) >= 0 {
			shown = uncoloured(line)
		}
		before, after, isRow := bytes.Cut(shown, siegeSecs)
		switch {
		case !isRow || !bytes.Contains(before, siegeHTTP):
			to.rest.add(line, ended)
		case !takeSiege(before, after, to):
			to.addUnread(line)
		}
	})
}

// takeSiege counts a row, of which it needs the part before the URL.
func takeSiege(before, after []byte, to *tally) bool {
	size, _, hasURL := bytes.Cut(after, siegeBytes)
	bytesIn, okay := whole(bytes.TrimLeft(size, " "))
	if !hasURL || !okay {
		return false
	}
	words := bytes.Fields(before)
	if len(words) < 3 {
		return false
	}
	protocol, status, time := words[len(words)-3], words[len(words)-2], words[len(words)-1]
	if bytes.Equal(status, siegeCached) && len(words) > 3 {
		protocol, status = words[len(words)-4], words[len(words)-3]
	}
	code, isCode := statusCode(bytes.TrimSuffix(status, siegeCached))
	ticks, isTime := fixed(time, 2)
	if !bytes.HasPrefix(protocol, siegeHTTP) || !isCode || !isTime || !to.add(ticks*siegeTick, 1) {
		return false
	}
	to.status[code]++
	to.bytesIn.add(uint64(bytesIn), 1)
	return true
}

// uncoloured returns the line without terminal escapes of the form ESC [ … m.
func uncoloured(line []byte) []byte {
	plain := make([]byte, 0, len(line))
	for {
		before, after, found := bytes.Cut(line, []byte{escape, '['})
		plain = append(plain, before...)
		if !found {
			return plain
		}
		end := bytes.IndexByte(after, 'm')
		if end < 0 || len(bytes.Trim(after[:end], "0123456789;")) > 0 {
			return append(append(plain, escape, '['), after...)
		}
		line = after[end+1:]
	}
}
