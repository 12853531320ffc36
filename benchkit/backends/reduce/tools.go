package main

import (
	"io"
	"slices"
	"time"
)

// A tool is a load tool with its own format of rows.
type tool struct {
	name string
	// resolution is the resolution of its times.
	resolution time.Duration
	// origin is the zero of its offsets.
	origin origin
	// event is the event at the offsets, which are counted by second.
	event event
	// numbered is true if rows have the number of the request, in the order in which they were sent.
	numbered bool
	// read parses rows to the end of the input.
	read func(in io.Reader, to *tally) (ending, error)
}

// origin is the zero of offsets.
type origin string

const (
	originNone origin = ""     // the tool prints no offsets
	originRun  origin = "run"  // when the tool began
	originUnix origin = "unix" // the epoch
)

// event is the kind of event that is counted by second.
type event string

const (
	eventStart event = "start"
	eventEnd   event = "end"
)

// ending is the way in which the rows ended.
type ending string

const (
	endedWhole   ending = "whole"   // after a complete row
	endedCut     ending = "cut"     // within a row: the tool was stopped, or its output truncated
	endedDamaged ending = "damaged" // at a place after which nothing could be parsed
)

// tools are the supported tools. Adding one takes its file and a line here.
var tools = map[string]tool{
	"ab":       {"ab", time.Millisecond, originUnix, eventStart, false, readAB},
	"h2load":   {"h2load", time.Microsecond, originUnix, eventEnd, false, readH2load},
	"hey":      {"hey", time.Nanosecond, originRun, eventEnd, false, readHey},
	"k6":       {"k6", k6Tick, originUnix, eventEnd, false, readK6},
	"openloop": {"openloop", time.Nanosecond, originUnix, eventEnd, false, readOpenloop},
	"siege":    {"siege", 10 * time.Millisecond, originNone, eventEnd, false, readSiege},
	"vegeta":   {"vegeta", time.Nanosecond, originUnix, eventEnd, true, readVegeta},
}

func toolNames() []string {
	names := make([]string, 0, len(tools))
	for name := range tools {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
