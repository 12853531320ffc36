package main

import (
	"testing"
	"time"
)

func TestAnAlarmIsNeverEarly(t *testing.T) {
	alarm, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []time.Duration{-1, 0, 1, time.Microsecond, 50 * time.Microsecond, 3 * time.Millisecond} {
		for range 20 {
			began := time.Now()
			if err := alarm.sleep(length); err != nil {
				t.Fatal(err)
			}
			if slept := time.Since(began); slept < length {
				t.Errorf("slept %s instead of %s", slept, length)
			}
		}
	}
}
