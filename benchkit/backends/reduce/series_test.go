package main

import (
	"fmt"
	"testing"
)

func TestSeries(t *testing.T) {
	var s series
	s.add(10_500_000_000, 10_500_300_000, 300_000, false)
	s.add(10_400_000_000, 10_500_400_000, 100_400_000, true) // began earlier, ended later
	s.add(11_400_000_000, 11_600_000_000, 200_000_000, false)
	s.add(11_700_000_000, 13_600_000_000, -1, true)
	read := s.document()
	expect(t, "seconds", fmt.Sprint(read.Seconds), "[{3 2 1 [[278 1] [1348 1]]} {1 1 0 [[1475 1]]} {0 0 0 []} {0 1 1 []}]")
	expect(t, "beyond", read.Beyond, 0)
}

func TestSeriesHasALimit(t *testing.T) {
	var s series
	s.add(0, 1000, 1000, false)
	s.add(maxSeconds*1e9-1, maxSeconds*1e9, 1000, false)
	expect(t, "seconds", len(s.document().Seconds), maxSeconds)
	expect(t, "beyond", s.document().Beyond, 1)
}

func TestSeriesWithoutRequests(t *testing.T) {
	var s series
	expect(t, "no series", s.document() == nil, true)
}
