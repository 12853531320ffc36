package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// stage is a number of requests, each due an interval in nanoseconds after the one before.
type stage struct {
	requests uint64
	interval int64
}

// stages are the schedule of a load tool, one stage after the other; those of a shaped vegeta are the same.
type stages []stage

// Set reads stages from the command line: 500x2ms,1000x1ms.
func (p *stages) Set(text string) error {
	*p = nil
	for _, part := range strings.Split(text, ",") {
		number, length, found := strings.Cut(part, "x")
		requests, err := strconv.ParseUint(number, 10, 40)
		interval, notTime := time.ParseDuration(length)
		if !found || err != nil || notTime != nil || requests == 0 || interval <= 0 ||
			interval > time.Duration(longestRun)/time.Duration(requests) {
			return fmt.Errorf("stage %q: expected a number of requests and a time, as 500x2ms", part)
		}
		*p = append(*p, stage{requests, interval.Nanoseconds()})
	}
	return nil
}

// String returns the stages as Set reads them.
func (p *stages) String() string {
	parts := make([]string, len(*p))
	for i, each := range *p {
		parts[i] = fmt.Sprintf("%dx%dns", each.requests, each.interval)
	}
	return strings.Join(parts, ",")
}

// due returns the nanoseconds from the start at which a request is due, numbered from 0, or false after the last one.
func (p stages) due(number uint64) (int64, bool) {
	var began int64
	for _, each := range p {
		if number < each.requests {
			if number > uint64(math.MaxInt64/each.interval) {
				return 0, false
			}
			return began + int64(number)*each.interval, true
		}
		number -= each.requests
		began += int64(each.requests) * each.interval
	}
	return 0, false
}
