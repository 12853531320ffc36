package main

import (
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
	for number, expected := range []time.Duration{0, 10, 20, 21, 22} {
		due, more := stages.due(uint64(number))
		if due != expected*time.Millisecond || !more {
			t.Errorf("request %d is due after %s (%t), expected %d ms", number, due, more, expected)
		}
	}
	if _, more := stages.due(5); more {
		t.Error("a sixth request of five")
	}
	if wait, stop := stages.Pace(15*time.Millisecond, 2); wait != 5*time.Millisecond || stop {
		t.Errorf("waits %s (%t)", wait, stop)
	}
	if wait, stop := stages.Pace(time.Second, 3); wait != 0 || stop {
		t.Errorf("a late request waits %s (%t)", wait, stop)
	}
	if _, stop := stages.Pace(0, 5); !stop {
		t.Error("goes on after the last request")
	}
	for elapsed, expected := range map[time.Duration]float64{0: 100, 20 * time.Millisecond: 1000, time.Second: 0} {
		if rate := stages.Rate(elapsed); rate != expected {
			t.Errorf("after %s %g requests/s, expected %g", elapsed, rate, expected)
		}
	}
}

func TestMalformedSchedulesAreRefused(t *testing.T) {
	for _, text := range []string{"", "5", "x1ms", "0x1ms", "5x", "5x0s", "5x-1ms", "5x1ms,", "1099511627775x10h"} {
		var stages schedule
		if err := stages.Set(text); err == nil {
			t.Errorf("%q was read as %s", text, stages.String())
		}
	}
}
