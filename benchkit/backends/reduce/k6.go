package main

import (
	"bytes"
	"io"
	"strings"
)

// k6 --out csv=timeFormat=unix_nano writes a heading, and a row for each figure of a request, thirteen of them, at its end:
//
//	metric_name,timestamp,metric_value,error,error_code,status,extra_tags,metadata
//	http_req_duration,1795746146193832558,31.528434,,,200,,
//
// The time is when the request ended, in nanoseconds since the epoch, the value its time in milliseconds from sending it to
// the last byte of the response. The columns after it are tags by their names, which a script may choose. The status is 0
// without a response; such a request has no response time here. Lines of another form are text.

const k6Tick = 1 // ns

var (
	k6Heading  = []byte("metric_name,timestamp,metric_value,")
	k6Duration = []byte("http_req_duration,")
)

type k6 struct {
	to *tally
	// status, message and code are the places of these columns; -1: there is none.
	status, message, code int
	begun                 bool
}

func readK6(in io.Reader, to *tally) (ending, error) {
	return eachLine(in, (&k6{to: to}).take)
}

func (k *k6) take(line []byte, ended bool) {
	switch {
	case !k.begun && ended && bytes.HasPrefix(line, k6Heading):
		k.begun = true
		columns := k6Fields(line)
		k.status, k.message, k.code = placeOf(columns, "status"), placeOf(columns, "error"), placeOf(columns, "error_code")
	case !k.begun || !isK6Row(line):
		k.to.rest.add(line, ended)
	case bytes.HasPrefix(line, k6Duration) && (!ended || !k.takeRow(line)): // a truncated row may lack tags
		k.to.addUnread(line)
	}
}

// isK6Row is true for a name, a time of nineteen digits and a number.
func isK6Row(line []byte) bool {
	name, rest, _ := bytes.Cut(line, []byte{','})
	time, _, hasValue := bytes.Cut(rest, []byte{','})
	if len(name) == 0 || len(time) != 19 || !hasValue {
		return false
	}
	for _, char := range time {
		if char < '0' || char > '9' {
			return false
		}
	}
	return true
}

func (k *k6) takeRow(line []byte) bool {
	fields := k6Fields(line)
	if k.status < 0 || k.status >= len(fields) {
		return false
	}
	ended, isTime := nanoseconds(fields[1])
	took, isValue := fixed(fields[2], 6)
	if !isTime || !isValue || took > longest*unit {
		return false
	}
	if status := fields[k.status]; len(status) == 1 && status[0] == '0' {
		k.to.addError(k.failure(fields))
		k.to.addTimes(ended-took, ended, -1, true)
		return true
	}
	status, isStatus := statusCode(fields[k.status])
	if !isStatus || !k.to.add(took, 1) {
		return false
	}
	k.to.status[status]++
	k.to.addTimes(ended-took, ended, took, isFailure(status))
	return true
}

// failure returns the error message of a row, or its code where it has none.
func (k *k6) failure(fields [][]byte) string {
	if k.message >= 0 && k.message < len(fields) && len(fields[k.message]) > 0 {
		return strings.ReplaceAll(string(fields[k.message]), `""`, `"`)
	}
	if k.code >= 0 && k.code < len(fields) && len(fields[k.code]) > 0 {
		return "error " + string(fields[k.code])
	}
	return "no response"
}

// nanoseconds parses a time since the epoch of nineteen digits, of which `whole` takes no more than eighteen.
func nanoseconds(text []byte) (int64, bool) {
	if len(text) != 19 {
		return 0, false
	}
	seconds, okay := whole(text[:10])
	rest, alsoOkay := whole(text[10:])
	return seconds*1e9 + rest, okay && alsoOkay && seconds < maxUnixSecond
}

// k6Fields splits a row at its commas, those within quotes excepted; quotes are removed.
func k6Fields(line []byte) [][]byte {
	fields, quoted, start := [][]byte{}, false, 0
	for i, char := range line {
		switch {
		case char == '"':
			quoted = !quoted
		case char == ',' && !quoted:
			fields = append(fields, bytes.Trim(line[start:i], `"`))
			start = i + 1
		}
	}
	return append(fields, bytes.Trim(line[start:], `"`))
}

func placeOf(columns [][]byte, name string) int {
	for place, column := range columns {
		if string(column) == name {
			return place
		}
	}
	return -1
}
