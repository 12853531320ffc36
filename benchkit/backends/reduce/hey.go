package main

import (
	"bytes"
	"io"
)

// hey accepts a template for its output. With benchkit's template it prints times to the nanosecond and, after the rows,
// exact counts, which its CSV lacks. The counts are right beyond the million rows that hey keeps.
//
//	benchkit rows of hey: time_s,status,offset_s
//	0.000239526,200,0.000131
//	--- benchkit counters of hey 1
//	…
//
// This program passes the text after the rows on unchanged.

var (
	heyHeading = []byte("benchkit rows of hey: time_s,status,offset_s")
	heyEnd     = []byte("--- ")
)

const (
	heyTimePlaces   = 9 // ns
	heyOffsetPlaces = 6 // µs
	heyOffsetTick   = 1000
)

type hey struct {
	to           *tally
	begun, ended bool
}

func readHey(in io.Reader, to *tally) (ending, error) {
	return eachLine(in, (&hey{to: to}).take)
}

func (h *hey) take(line []byte, ended bool) {
	switch {
	case !h.begun && bytes.Equal(line, heyHeading):
		h.begun = true
	case h.ended || bytes.HasPrefix(line, heyEnd):
		h.ended = true
		h.to.rest.add(line, ended)
	case len(line) == 0:
	case !h.begun || !ended || !h.takeRow(line): // a truncated row may lack places
		h.to.addUnread(line)
	}
}

func (h *hey) takeRow(line []byte) bool {
	time, line, hasStatus := bytes.Cut(line, []byte{','})
	status, offset, hasOffset := bytes.Cut(line, []byte{','})
	took, isTime := fixed(time, heyTimePlaces)
	code, isCode := statusCode(status)
	start, isOffset := fixed(offset, heyOffsetPlaces)
	if !hasStatus || !hasOffset || !isTime || !isCode || !isOffset || !h.to.add(took, 1) {
		return false
	}
	h.to.status[code]++
	start *= heyOffsetTick
	h.to.addTimes(start, start+took, took, isFailure(code))
	return true
}
