package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// stage is a number of requests, each due an interval after the one before.
type stage struct {
	requests uint64
	interval time.Duration
}

// schedule is stages one after the other, a vegeta.Pacer. The reducer has the same to know when requests were due.
type schedule []stage

// Set reads a schedule from the command line: 500x2ms,1000x1ms.
func (s *schedule) Set(text string) error {
	*s = nil
	for _, part := range strings.Split(text, ",") {
		number, length, found := strings.Cut(part, "x")
		requests, err := strconv.ParseUint(number, 10, 40)
		if err != nil || !found || requests == 0 {
			return fmt.Errorf("stage %q: expected a number of requests and a time, as 500x2ms", part)
		}
		interval, err := time.ParseDuration(length)
		if err != nil || interval <= 0 || interval > time.Duration(math.MaxInt64)/time.Duration(requests) {
			return errors.New("stage " + strconv.Quote(part) + ": its time is out of range")
		}
		*s = append(*s, stage{requests, interval})
	}
	return nil
}

// String returns the schedule as Set reads it.
func (s *schedule) String() string {
	parts := make([]string, len(*s))
	for i, each := range *s {
		parts[i] = fmt.Sprintf("%dx%s", each.requests, each.interval)
	}
	return strings.Join(parts, ",")
}

// due returns the time from the start at which a request is due, numbered from 0, or false after the last one.
func (s schedule) due(number uint64) (time.Duration, bool) {
	var began time.Duration
	for _, each := range s {
		if number < each.requests {
			return began + time.Duration(number)*each.interval, true
		}
		number -= each.requests
		began += time.Duration(each.requests) * each.interval
	}
	return 0, false
}

// Pace returns the time to wait for the next request, and true after the last one.
func (s schedule) Pace(elapsed time.Duration, sent uint64) (time.Duration, bool) {
	due, more := s.due(sent)
	return max(0, due-elapsed), !more
}

// Rate returns the requests per second at a time from the start; 0 after the last one.
func (s schedule) Rate(elapsed time.Duration) float64 {
	for _, each := range s {
		if length := time.Duration(each.requests) * each.interval; elapsed >= length {
			elapsed -= length
			continue
		}
		return float64(time.Second) / float64(each.interval)
	}
	return 0
}
