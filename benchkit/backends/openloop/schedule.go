package main

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// stage is a number of requests, and the time between two of them, on average where arrivals are random.
type stage struct {
	requests uint64
	interval time.Duration
}

// schedule is stages one after the other.
type schedule []stage

// Set reads a schedule from the command line: 500x2ms,1000x1ms.
func (s *schedule) Set(text string) error {
	*s = nil
	left := time.Duration(math.MaxInt64)
	for part := range strings.SplitSeq(text, ",") {
		number, length, found := strings.Cut(part, "x")
		requests, err := strconv.ParseUint(number, 10, 40)
		if err != nil || !found || requests == 0 {
			return fmt.Errorf("stage %q: expected a number of requests and a time, as 500x2ms", part)
		}
		interval, err := time.ParseDuration(length)
		if err != nil || interval <= 0 || interval > left/time.Duration(requests) {
			return errors.New("stage " + strconv.Quote(part) + ": its time is out of range")
		}
		left -= interval * time.Duration(requests)
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

// length returns the time of all stages.
func (s schedule) length() time.Duration {
	var length time.Duration
	for _, each := range s {
		length += time.Duration(each.requests) * each.interval
	}
	return length
}

// instants yields the times from the start at which requests are due, in order: an interval apart, or, with random, those
// of a Poisson process of which the number in each stage is known. Such arrivals are independent and uniform over the
// stage (Ross, Introduction to Probability Models, 5.3), and the next of n in order is the smallest of n uniform numbers in
// what is left (Devroye, Non-Uniform Random Variate Generation, 1986, V.3).
func (s schedule) instants(random *rand.Rand) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		var began time.Duration
		for _, each := range s {
			length, share := time.Duration(each.requests)*each.interval, 0.0
			for number := range each.requests {
				at := time.Duration(number) * each.interval
				if random != nil {
					share -= (1 - share) * math.Expm1(-random.ExpFloat64()/float64(each.requests-number))
					at = time.Duration(share * float64(length))
				}
				if !yield(began + at) {
					return
				}
			}
			began += length
		}
	}
}
