package main

import (
	"bytes"
	"io"
)

// h2load --log-file=/dev/stdout writes one row at the end of each request, with a separate write, and its own text between
// and after the rows:
//
//	1795204876699885	200	460
//
// The start is in microseconds since the epoch, the status -1 where the stream failed, the time in microseconds. Newer
// versions may add columns at the end. A failed stream has no response time and is counted as an error.

const (
	h2loadTick   = 1000 // ns
	maxUnixMicro = maxUnixSecond * 1_000_000
)

var h2loadFailed = []byte("-1")

func readH2load(in io.Reader, to *tally) (ending, error) {
	return eachLine(in, func(line []byte, ended bool) {
		start, rest, hasStatus := bytes.Cut(line, []byte{'\t'})
		status, rest, hasTime := bytes.Cut(rest, []byte{'\t'})
		took, _, _ := bytes.Cut(rest, []byte{'\t'})
		switch {
		case !hasStatus:
			to.rest.add(line, ended)
		case !ended || !hasTime || !takeH2load(start, status, took, to): // a truncated row may lack digits
			to.addUnread(line)
		}
	})
}

func takeH2load(start, status, took []byte, to *tally) bool {
	began, isStart := whole(start)
	micros, isTime := whole(took)
	if !isStart || !isTime || began > maxUnixMicro || micros > longest {
		return false
	}
	if bytes.Equal(status, h2loadFailed) {
		to.addError("the stream failed")
		to.addTimes(began*h2loadTick, (began+micros)*h2loadTick, -1, true)
		return true
	}
	code, isCode := statusCode(status)
	if !isCode || !to.add(micros*h2loadTick, 1) {
		return false
	}
	to.status[code]++
	to.addTimes(began*h2loadTick, (began+micros)*h2loadTick, micros*h2loadTick, isFailure(code))
	return true
}
