package main

import (
	"bytes"
	"encoding/binary"
	"io"
)

// hey prints a heading and one row for each response at the end of its run, at most a million:
//
//	response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset
//	0.0020,0.0002,0.0000,0.0000,0.0016,0.0000,200,0.0001
//
// Times are seconds with four places; the offset is from hey's start to the request's. Older versions have fewer columns.
// Failed requests have no row.

const (
	heyTick   = 100_000 // ns in the last place of a time
	heySecond = 10_000  // ticks
	heyTimes  = 6       // columns before status-code, or the first of them alone

	// heyShort is the number of ticks in ten seconds. Shorter times are counted in an array, which is cheaper than a histogram.
	heyShort = 10 * heySecond
)

var (
	heyHeading       = []byte("response-time")
	heyHeadingPhases = []byte(",DNS+dialup,DNS,Request-write,Response-delay,Response-read")
	heyHeadingStatus = []byte(",status-code")
	heyHeadingOffset = []byte(",offset")
)

type hey struct {
	to        *tally
	begun     bool // the heading was read
	hasPhases bool
	hasStatus bool
	hasOffset bool
	short     [heyShort]int64
}

func readHey(in io.Reader, to *tally) (ending, error) {
	rows := &hey{to: to}
	to.flush = rows.flush
	return eachLine(in, rows.take)
}

// take parses a line. A truncated last row lacks decimal places, so a complete one is recognised without a line end.
func (h *hey) take(line []byte, _ bool) {
	switch {
	case len(line) == 0:
	case h.hasPhases && h.hasStatus && h.hasOffset && h.takeFast(line):
	case h.begun && h.takeSlow(line):
	case !h.begun && h.takeHeading(line):
	default:
		h.to.addUnread(line)
	}
}

func (h *hey) takeHeading(line []byte) bool {
	line, isHeading := bytes.CutPrefix(line, heyHeading)
	line, hasPhases := bytes.CutPrefix(line, heyHeadingPhases)
	line, hasStatus := bytes.CutPrefix(line, heyHeadingStatus)
	line, hasOffset := bytes.CutPrefix(line, heyHeadingOffset)
	if !isHeading || len(line) > 0 {
		return false
	}
	h.begun, h.hasPhases, h.hasStatus, h.hasOffset = true, hasPhases, hasStatus, hasOffset
	return true
}

// A row with times below ten seconds has everything but the end of its offset at fixed positions, so that eight bytes can
// be checked at once: XOR with a row of zeros leaves values below ten for digits, and zero for point and comma. In any other
// byte the highest bit is set already, or set by the addition of heyAllow.
const (
	heyZero  = uint64('0') | uint64('.')<<8 | uint64('0')<<16 | uint64('0')<<24 | uint64('0')<<32 | uint64('0')<<40 | uint64(',')<<48
	heyAllow = 0x00_7F_76_76_76_76_7F_76
	heyMask  = 0x00_FF_FF_FF_FF_FF_FF_FF
	highBits = 0x80_80_80_80_80_80_80_80

	heyField  = 7 // bytes of "0.0000,"
	heyStatus = heyTimes * heyField
	heyOffset = heyStatus + 4
	heyLeast  = heyOffset + 6
)

// takeFast counts a row of the usual form, or returns false for other forms.
func (h *hey) takeFast(line []byte) bool {
	if len(line) < heyLeast {
		return false
	}
	first := (binary.LittleEndian.Uint64(line) ^ heyZero) & heyMask
	wrong := first | (first + heyAllow)
	for at := heyField; at < heyStatus; at += heyField {
		field := (binary.LittleEndian.Uint64(line[at:]) ^ heyZero) & heyMask
		wrong |= field | (field + heyAllow)
	}
	status, isStatus := statusCode(line[heyStatus : heyOffset-1])
	offset, isOffset := fixed(line[heyOffset:], 4)
	if wrong&highBits != 0 || !isStatus || line[heyOffset-1] != ',' || !isOffset {
		return false
	}
	ticks := int64(first&0xFF)*heySecond +
		int64(first>>16&0xFF)*1000 + int64(first>>24&0xFF)*100 + int64(first>>32&0xFF)*10 + int64(first>>40&0xFF)
	h.short[ticks]++
	h.to.status[status]++
	h.at(offset, ticks)
	return true
}

// takeSlow counts a row of any form that hey prints, or returns false for other text.
func (h *hey) takeSlow(line []byte) bool {
	columns := 1
	if h.hasPhases {
		columns = heyTimes
	}
	var took int64
	var field []byte
	more := true
	for column := range columns {
		if !more {
			return false
		}
		field, line, more = bytes.Cut(line, []byte{','})
		ticks, okay := fixed(field, 4)
		if !okay {
			return false
		}
		if column == 0 {
			took = ticks
		}
	}
	status, offset, okay := int64(0), int64(0), true
	if h.hasStatus {
		if !more {
			return false
		}
		field, line, more = bytes.Cut(line, []byte{','})
		if status, okay = statusCode(field); !okay {
			return false
		}
	}
	if h.hasOffset {
		if offset, okay = fixed(line, 4); !okay || !more {
			return false
		}
		more = false
	}
	if more || !h.to.add(took*heyTick, 1) {
		return false
	}
	if h.hasStatus {
		h.to.status[status]++
	}
	if h.hasOffset {
		h.at(offset, took)
	}
	return true
}

// at records start and duration of a request in ticks.
func (h *hey) at(start, took int64) {
	h.to.span.add(start*heyTick, (start+took)*heyTick)
	h.to.seconds.add((start + took) / heySecond)
}

// flush moves the counts of the array into the tally.
func (h *hey) flush() {
	for ticks, n := range h.short {
		if n > 0 {
			h.to.add(int64(ticks)*heyTick, n)
		}
	}
	clear(h.short[:])
}
