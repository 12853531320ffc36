package main

import (
	"io"
	"slices"
	"time"
)

// A tool prints requests in a way of its own.
type tool struct {
	name string
	// resolution is the step in which it prints times.
	resolution time.Duration
	// origin is what its offsets are counted from.
	origin origin
	// event is what happened at an offset that is counted by seconds.
	event event
	// read reads rows to their end.
	read func(in io.Reader, to *tally) (ending, error)
}

// origin is the zero of offsets.
type origin string

const (
	originNone origin = ""     // the tool prints no offsets
	originRun  origin = "run"  // when the tool began
	originUnix origin = "unix" // the epoch
)

// event is what the counts by second count.
type event string

const (
	eventStart event = "start"
	eventEnd   event = "end"
)

// ending is how the rows ended.
type ending string

const (
	endedWhole   ending = "whole"   // behind a row
	endedCut     ending = "cut"     // within a row: the tool was ended, or its output cut
	endedDamaged ending = "damaged" // at a place from which nothing more could be read
	endedStopped ending = "stopped" // this program was asked to end
)

// tools are those it reads. Adding one touches its file and this list.
var tools = map[string]tool{
	"ab":           {"ab", time.Millisecond, originUnix, eventStart, readAB},
	"h2load":       {"h2load", time.Microsecond, originUnix, eventEnd, readH2load},
	"hey":          {"hey", 100 * time.Microsecond, originRun, eventEnd, readHey},
	"hey-template": {"hey", time.Nanosecond, originRun, eventEnd, readHeyTemplate},
	"siege":        {"siege", 10 * time.Millisecond, originNone, eventEnd, readSiege},
	"vegeta":       {"vegeta", time.Nanosecond, originUnix, eventEnd, readVegeta},
}

func toolNames() []string {
	names := make([]string, 0, len(tools))
	for name := range tools {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
