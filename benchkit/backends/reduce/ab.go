package main

import (
	"bytes"
	"io"
)

// ab -g writes a heading and one row for each request at the end of its run, sorted by duration:
//
//	starttime	seconds	ctime	dtime	ttime	wait
//	Fri Nov 20 19:28:21 2026	1795202901	0	1	1	1
//
// Times are whole milliseconds (ttime, of the whole request, is rounded), the start is in whole seconds since the epoch.
// With -g /dev/stdout the table is inside the summary, after an unfinished line, because ab writes the two through separate
// buffers. This program passes the summary on unchanged.

var abHeading = []byte("starttime\tseconds\tctime\tdtime\tttime\twait")

const (
	abColumns = 6
	abSeconds = 1
	abTtime   = 4
	abTick    = 1_000_000 // ns
)

type ab struct {
	to    *tally
	begun bool
}

func readAB(in io.Reader, to *tally) (ending, error) {
	return eachLine(in, (&ab{to: to}).take)
}

func (a *ab) take(line []byte, ended bool) {
	if !a.begun && ended {
		if before, isHeading := bytes.CutSuffix(line, abHeading); isHeading {
			a.begun = true
			a.to.rest.add(before, false)
			return
		}
	}
	switch {
	case !a.begun || bytes.IndexByte(line, '\t') < 0:
		a.to.rest.add(line, ended)
	case !ended || !a.takeRow(line): // a truncated row may lack digits
		a.to.addUnread(line)
	}
}

func (a *ab) takeRow(line []byte) bool {
	_, line, _ = bytes.Cut(line, []byte{'\t'}) // the date, which `seconds` repeats
	var figures [abColumns]int64
	for column := abSeconds; column < abColumns; column++ {
		if column != abSeconds && column != abTtime {
			line = bytes.TrimPrefix(line, []byte{'-'})
		}
		figure, rest, okay := leadingDigits(line)
		isLast := column == abColumns-1
		if !okay || isLast != (len(rest) == 0) || (!isLast && rest[0] != '\t') {
			return false
		}
		figures[column] = figure
		if !isLast {
			line = rest[1:]
		}
	}
	second, took := figures[abSeconds], figures[abTtime]
	if second > maxUnixSecond || took > longest || !a.to.add(took*abTick, 1) {
		return false
	}
	a.to.span.add(second*1e9, second*1e9+took*abTick)
	a.to.seconds.add(second)
	return true
}

// maxUnixSecond is in the year 2262, the limit of nanoseconds since the epoch in 64 bits.
const maxUnixSecond = 1<<63/1_000_000_000 - 3600
