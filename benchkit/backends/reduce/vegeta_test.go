package main

import (
	"bytes"
	"encoding/gob"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is the type that vegeta 12 encodes; names and types of the fields define the format.
type Result struct {
	Attack    string
	Seq       uint64
	Code      uint16
	Timestamp time.Time
	Latency   time.Duration
	BytesOut  uint64
	BytesIn   uint64
	Error     string
	Body      []byte
	Method    string
	URL       string
	Headers   http.Header
}

func encoded(t testing.TB, results ...Result) string {
	t.Helper()
	var out bytes.Buffer
	encoder := gob.NewEncoder(&out)
	for _, result := range results {
		if err := encoder.Encode(&result); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func someResults() []Result {
	began := time.Unix(1795202901, 999_000_000).In(time.FixedZone("", 3600))
	return []Result{
		{Code: 200, Timestamp: began.Add(500), Latency: 1_234_567, BytesIn: 12, BytesOut: 3, Method: "GET", URL: "http://h/",
			Body: []byte("Hello World\n"), Headers: http.Header{"Date": {"now"}, "Server": {"gophr"}}},
		{Seq: 1, Code: 503, Timestamp: began, Latency: 499, BytesIn: 12, Error: "503 Service Unavailable"},
		{Seq: 2, Timestamp: began.Add(time.Second), Latency: 30 * time.Second,
			Error: "Get \"http://h/\": read tcp 127.0.0.1:40001->127.0.0.1:80: i/o timeout"},
		{Seq: 3, Code: 200, Timestamp: began.Add(2 * time.Second), Latency: 0, BytesIn: 12},
	}
}

func TestVegeta(t *testing.T) {
	report, histogram, _ := reduced(t, "vegeta", encoded(t, someResults()...))
	expect(t, "rows", report.Rows, 4)
	expect(t, "unread", report.Unread.Count, 0)
	expect(t, "ended", report.Ended, endedWhole)
	expectMap(t, "counts", counts(histogram), map[int64]int64{0: 2, 1235: 1, 29999104: 1})
	expectMap(t, "status", report.Status, map[string]int64{"0": 1, "200": 2, "503": 1})
	expectMap(t, "errors", report.Errors, map[string]int64{
		"503 Service Unavailable": 1,
		"Get \"http://h/\": read tcp 127.0.0.1:*->127.0.0.1:80: i/o timeout": 1,
	})
	expect(t, "bytes in", report.BytesIn.Int64(), 36)
	expect(t, "bytes out", report.BytesOut.Int64(), 3)
	expect(t, "min", report.Latency.MinNS, 0)
	expect(t, "max", report.Latency.MaxNS, 30e9)
	expect(t, "sum", report.Latency.SumNS.Int64(), 1_234_567+499+30e9)
	expect(t, "span", *report.Span, spanned{originUnix, 1795202901_999e6, 1795202903_999e6, 1795202932_999e6, 1})
	expect(t, "first second", report.Seconds.Counts[0], [2]int64{1795202901, 1})
}

func TestVegetaAtARate(t *testing.T) {
	began := time.Unix(1795202901, 0)
	sent := func(number uint64, at, latency time.Duration) Result {
		return Result{Seq: number, Code: 200, Timestamp: began.Add(at), Latency: latency}
	}
	output := encoded(t,
		sent(0, 2*time.Millisecond, 100*time.Microsecond),
		sent(1, 12*time.Millisecond, 100*time.Microsecond),
		sent(2, 25*time.Millisecond, 100*time.Microsecond), // 3 ms late
		sent(4, 42*time.Millisecond, 100*time.Microsecond),
		sent(3, 39*time.Millisecond, 200*time.Microsecond), // 7 ms late
	)
	report, histogram, _ := reducedAt(t, "vegeta", 10*time.Millisecond, output)
	expectMap(t, "times since the requests were due", counts(histogram), map[int64]int64{100: 3, 3100: 1, 7200: 1})
	lag, err := hdrhistogram.Decode([]byte(report.Lag.HistogramUS))
	if err != nil {
		t.Fatal(err)
	}
	expectMap(t, "lag", counts(lag), map[int64]int64{0: 3, 3000: 1, 7000: 1})
	expect(t, "largest lag", report.Lag.MaxNS, 7_000_000)
	expect(t, "ended after the last start", report.Span.EndedLater, 1)
	report, histogram, _ = reduced(t, "vegeta", output)
	expectMap(t, "times since they were sent", counts(histogram), map[int64]int64{100: 4, 200: 1})
	expect(t, "no schedule", report.Lag == nil, true)
}

func TestVegetaNumbersBeyondAnyRun(t *testing.T) {
	good := someResults()[0]
	bad := good
	bad.Seq = 1 << 63
	report, _, _ := reducedAt(t, "vegeta", time.Millisecond, encoded(t, good, bad))
	expect(t, "rows", report.Rows, 1)
	expect(t, "unread", report.Unread.Count, 1)
}

func TestEndsAfterTheLastStart(t *testing.T) {
	tally := newTally(0)
	for i := range int64(5000) { // each takes as long as ten intervals
		tally.span.add(1000*i, 1000*(i+10))
	}
	expect(t, "in flight at the end", tally.span.endedLater(), 10)
	expect(t, "few are kept", cap(tally.span.later) < 5000, true)
}

func TestVegetaInvalidResults(t *testing.T) {
	good := someResults()[0]
	for name, spoil := range map[string]func(*Result){
		"a negative latency":      func(r *Result) { r.Latency = -1 },
		"a latency of two hours":  func(r *Result) { r.Latency = 2 * time.Hour },
		"a status of four digits": func(r *Result) { r.Code = 1000 },
		"no time":                 func(r *Result) { r.Timestamp = time.Unix(0, 0) },
	} {
		bad := good
		spoil(&bad)
		report, _, _ := reduced(t, "vegeta", encoded(t, good, bad, good))
		expect(t, name, report.Rows, 2)
		expect(t, name, report.Unread.Count, 1)
		expect(t, name, report.Ended, endedWhole)
	}
	bad := good
	bad.Timestamp = time.Unix(-1, 0)
	report, _, _ := reduced(t, "vegeta", encoded(t, good, bad, good))
	expect(t, "a time before 1970 ends reading", report.Ended, endedDamaged)
	expect(t, "earlier rows are kept", report.Rows, 1)
	expect(t, "and the row is unread", report.Unread.Count, 1)
}

func TestVegetaTruncatedAnywhere(t *testing.T) {
	output := encoded(t, someResults()...)
	seen := map[int64]bool{}
	for cut := range len(output) {
		report, _, _ := reduced(t, "vegeta", output[:cut])
		seen[report.Rows] = true
		if report.Rows > 4 || report.Unread.Count > 0 && report.Ended != endedDamaged {
			t.Fatalf("cut at %d: %+v", cut, report)
		}
	}
	expect(t, "each number of rows was seen", len(seen), 4)
}

func TestVegetaTextIsNotItsStream(t *testing.T) {
	report, _, _ := reduced(t, "vegeta", "Requests      [total, rate, throughput]         5995, 1998.45, 1998.35\n")
	expect(t, "ended", report.Ended == endedDamaged || report.Ended == endedCut, true)
	expect(t, "rows", report.Rows, 0)
}

func TestVegetaMessageOfAnotherProgram(t *testing.T) {
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(struct{ Code string }{"200"}); err != nil {
		t.Fatal(err)
	}
	report, _, _ := reduced(t, "vegeta", out.String())
	expect(t, "ended", report.Ended, endedDamaged)
	expect(t, "quoted", strings.Contains(*report.Unread.First, "gob"), true)
}
