package main

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// exchange is a request as openloop writes it.
type exchange struct {
	Start, Late, Took, Received int64
	Status                      uint16
	Class, OtherSize            uint8
}

func openloopRows(rows ...exchange) string {
	var out bytes.Buffer
	if err := binary.Write(&out, binary.LittleEndian, rows); err != nil {
		panic(err)
	}
	return out.String()
}

const openloopStart = int64(1795204876_900_000_000)

func TestOpenloop(t *testing.T) {
	rows := openloopRows(
		exchange{openloopStart, 40_000, 260_000, 12, 200, 0, 0},
		exchange{openloopStart + 1e6, 0, 500_000, 7, 503, 0, 0},
		exchange{openloopStart + 2e8, 2e6, 1e9, 0, 0, 0, 0},
	)
	report, histogram, _ := reduced(t, "openloop", rows)
	expect(t, "ended", report.Ended, endedWhole)
	expect(t, "rows", report.Rows, 2)
	expect(t, "unread", report.Unread.Count, 0)
	expectMap(t, "times since the requests were due", counts(histogram), map[int64]int64{300: 1, 500: 1})
	lag, err := hdrhistogram.Decode([]byte(report.Lag.HistogramUS))
	expect(t, "lag", err, nil)
	expectMap(t, "lag of those with a response", counts(lag), map[int64]int64{0: 1, 40: 1})
	expectMap(t, "status", report.Status, map[string]int64{"200": 1, "503": 1})
	expectMap(t, "errors", report.Errors, map[string]int64{"no response": 1})
	expect(t, "bytes", report.BytesIn.Int64(), 19)
	expect(t, "span", *report.Span, spanned{originUnix, openloopStart, openloopStart + 1e6, openloopStart + 1_500_000, 1})
	expect(t, "started", report.Series.Seconds[0].Started, 3)
	expect(t, "errors in the second", report.Series.Seconds[1].Errors, 1)
}

func TestOpenloopInAClosedLoop(t *testing.T) {
	report, histogram, _ := reduced(t, "openloop", openloopRows(exchange{openloopStart, -1, 260_000, 12, 200, 0, 0}))
	expect(t, "no lag", report.Lag == nil, true)
	expectMap(t, "times since it was sent", counts(histogram), map[int64]int64{260: 1})
}

func TestOpenloopClasses(t *testing.T) {
	report, _, _ := reduced(t, "openloop", openloopRows(
		exchange{openloopStart, 40_000, 260_000, 12, 200, 2, 0},
		exchange{openloopStart, 0, 500_000, 7, 503, 2, 1},
		exchange{openloopStart, 0, 1e9, 0, 0, 2, 0},
		exchange{openloopStart, 0, 1e9, 0, 0, 7, 0},
		exchange{openloopStart, 0, 700_000, 9, 200, 0, 0},
	))
	expect(t, "classes", len(report.Classes), 2)
	both, silent := report.Classes[0], report.Classes[1]
	expect(t, "number", both.Class, 2)
	expectMap(t, "status", both.Status, map[string]int64{"200": 1, "503": 1})
	expect(t, "sizes", *both.Bytes, [2]int64{7, 12})
	expect(t, "other sizes", both.OtherSizes, 1)
	expect(t, "errors", both.Errors, 1)
	histogram, err := hdrhistogram.Decode([]byte(both.Latency.HistogramUS))
	expect(t, "times", err, nil)
	expectMap(t, "times since the requests were due", counts(histogram), map[int64]int64{300: 1, 500: 1})
	expect(t, "number", silent.Class, 7)
	expect(t, "no times", silent.Latency == nil && silent.Bytes == nil, true)
	expect(t, "errors", silent.Errors, 1)
}

func TestOpenloopInvalidRows(t *testing.T) {
	good := exchange{openloopStart, 0, 1000, 12, 200, 0, 0}
	for name, spoil := range map[string]func(*exchange){
		"no time":                 func(e *exchange) { e.Start = 0 },
		"a time after 2262":       func(e *exchange) { e.Start = 1<<63 - 1 },
		"sent early":              func(e *exchange) { e.Late = -2 },
		"two hours late":          func(e *exchange) { e.Late = int64(2 * time.Hour) },
		"a negative time":         func(e *exchange) { e.Took = -1 },
		"a time of two hours":     func(e *exchange) { e.Took = int64(2 * time.Hour) },
		"late and slow":           func(e *exchange) { e.Late, e.Took = int64(time.Hour), int64(time.Hour) },
		"a negative size":         func(e *exchange) { e.Received = -1 },
		"a status of four digits": func(e *exchange) { e.Status = 1000 },
		"neither size":            func(e *exchange) { e.OtherSize = 2 },
		"a closed loop":           func(e *exchange) { e.Late = -1 },
	} {
		bad := good
		spoil(&bad)
		report, _, _ := reduced(t, "openloop", openloopRows(good, bad, good))
		expect(t, name, report.Rows, 2)
		expect(t, name, report.Unread.Count, 1)
	}
}

func TestOpenloopTruncatedAnywhere(t *testing.T) {
	rows := openloopRows(exchange{openloopStart, 0, 1000, 12, 200, 0, 0}, exchange{openloopStart, 0, 1000, 12, 200, 0, 0})
	for cut := range len(rows) {
		report, _, _ := reduced(t, "openloop", rows[:cut])
		expect(t, "rows", report.Rows, int64(cut/openloopRow))
		expect(t, "ended", report.Ended == endedWhole, cut%openloopRow == 0)
	}
}
