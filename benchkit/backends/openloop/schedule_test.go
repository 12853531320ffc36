package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestRequestsAreDueByTheirStages(t *testing.T) {
	var stages schedule
	if err := stages.Set("2x10ms,3x1ms"); err != nil {
		t.Fatal(err)
	}
	if text := stages.String(); text != "2x10ms,3x1ms" {
		t.Errorf("read %s", text)
	}
	if length := stages.length(); length != 23*time.Millisecond {
		t.Errorf("%s long", length)
	}
	ms := time.Millisecond
	if due := slices.Collect(stages.instants(nil)); !slices.Equal(due, []time.Duration{0, 10 * ms, 20 * ms, 21 * ms, 22 * ms}) {
		t.Errorf("due after %s", due)
	}
}

func TestMalformedSchedulesAreRefused(t *testing.T) {
	for _, text := range []string{"", "5", "x1ms", "0x1ms", "5x", "5x0s", "5x-1ms", "5x1ms,", "1099511627775x10h", "1x2000000h,1x1000000h"} {
		var stages schedule
		if err := stages.Set(text); err == nil {
			t.Errorf("%q was read as %s", text, stages.String())
		}
	}
}

// TestRandomArrivalsAreThoseOfAPoissonProcess compares the intervals between requests with their exponential distribution
// (Kolmogorov's test at 0.001), and counts each stage.
func TestRandomArrivalsAreThoseOfAPoissonProcess(t *testing.T) {
	const number = 20_000
	stages := schedule{{number, time.Millisecond}, {100, 10 * time.Millisecond}}
	random := func() []time.Duration { return slices.Collect(stages.instants(rand.New(rand.NewPCG(7, 0)))) }
	due := random()
	if !slices.Equal(due, random()) {
		t.Error("a seed does not repeat the instants")
	}
	if len(due) != number+100 || !slices.IsSorted(due) || due[number-1] >= number*time.Millisecond || due[number] < number*time.Millisecond {
		t.Errorf("%d requests, stages apart at %s and %s", len(due), due[number-1], due[number])
	}
	intervals := make([]float64, number-1)
	for i := range intervals {
		intervals[i] = (due[i+1] - due[i]).Seconds() * 1000
	}
	slices.Sort(intervals)
	distance := 0.0
	for i, each := range intervals {
		distance = max(distance, math.Abs(-math.Expm1(-each)-(float64(i)+0.5)/float64(len(intervals))))
	}
	if limit := 1.95 / math.Sqrt(number); distance > limit {
		t.Errorf("distance %.4f from the exponential distribution, above %.4f", distance, limit)
	}
}
