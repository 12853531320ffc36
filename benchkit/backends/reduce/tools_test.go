package main

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"math/big"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// reduced returns the document, the histogram and the remaining text of a tool's output.
func reduced(t testing.TB, name, output string) (report, *hdrhistogram.Histogram, string) {
	t.Helper()
	return reducedAt(t, name, 0, output)
}

// reducedAt does the same for requests that were due at this interval.
func reducedAt(t testing.TB, name string, interval time.Duration, output string) (report, *hdrhistogram.Histogram, string) {
	t.Helper()
	tally := newTally(interval.Nanoseconds())
	ended, err := tools[name].read(strings.NewReader(output), tally)
	if err != nil {
		t.Fatal(err)
	}
	return documented(t, name, tally, ended)
}

// documented returns the document of a tally, parsed again.
func documented(t testing.TB, name string, tally *tally, ended ending) (report, *hdrhistogram.Histogram, string) {
	t.Helper()
	written, err := document(tools[name], tally, ended)
	if err != nil {
		t.Fatal(err)
	}
	var report report
	decoder := json.NewDecoder(bytes.NewReader(written))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); err != nil {
		t.Fatal(err)
	}
	if report.Latency == nil {
		return report, nil, tally.rest.kept.String()
	}
	histogram, err := hdrhistogram.Decode([]byte(report.Latency.HistogramUS))
	if err != nil {
		t.Fatal(err)
	}
	return report, histogram, tally.rest.kept.String()
}

// counts returns the counts of a histogram by their value in microseconds.
func counts(histogram *hdrhistogram.Histogram) map[int64]int64 {
	found := map[int64]int64{}
	if histogram != nil {
		for _, bar := range histogram.Distribution() {
			if bar.Count > 0 {
				found[bar.From] = bar.Count
			}
		}
	}
	return found
}

func expect[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func expectMap[K, V comparable](t testing.TB, what string, got, want map[K]V) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

const abTable = "starttime\tseconds\tctime\tdtime\tttime\twait\n" +
	"Fri Nov 20 19:28:21 2026\t1795202901\t0\t1\t1\t1\n" +
	"Fri Nov 20 19:28:22 2026\t1795202902\t0\t7\t7\t-1\n" +
	"Fri Nov 20 19:28:21 2026\t1795202901\t3\t20\t23\t20\n"

func TestABRowsInsideItsSummary(t *testing.T) {
	summary := "This is ApacheBench\n\nBenchmarking 127.0.0.1 (be patient)...|..done\n\nTotal:  0  0\n"
	for _, place := range []int{0, len("This is ApacheBench\n"), strings.IndexByte(summary, '|'), len(summary)} {
		report, histogram, rest := reduced(t, "ab", summary[:place]+abTable+summary[place:])
		expect(t, "the summary", rest, summary)
		expect(t, "ended", report.Ended, endedWhole)
		expect(t, "unread", report.Unread.Count, 0)
		expectMap(t, "counts", counts(histogram), map[int64]int64{1000: 1, 7000: 1, 23000: 1})
		expect(t, "sum", report.Latency.SumNS.Int64(), 31_000_000)
		expect(t, "span", *report.Span, spanned{originUnix, 1795202901e9, 1795202902e9, 1795202902e9 + 7e6, 1})
		expect(t, "first second", report.Seconds.Counts[0], [2]int64{1795202901, 2})
		expect(t, "event", report.Seconds.Event, eventStart)
	}
}

func TestABInvalidRows(t *testing.T) {
	for _, row := range []string{
		"Fri Nov 20 19:28:21 2026\t1795202901\t0\t1\t-1\t1",
		"Fri Nov 20 19:28:21 2026\t-1795202901\t0\t1\t1\t1",
		"Fri Nov 20 19:28:21 2026\t1795202901\t0\t1\t1.5\t1",
		"Fri Nov 20 19:28:21 2026\t1795202901\t0\t1\t\t1",
		"Fri Nov 20 19:28:21 2026\t1795202901\t0\t1\tnan\t1",
		"Fri Nov 20 19:28:21 2026\t1795202901\t0\t1\t1",
		"Fri Nov 20 19:28:21 2026\t1795202901\t0\t1\t1\t1\t1",
		"Fri Nov 20 19:28:21 2026\t1795202901\t0\t1\t999999999999\t1",
		"Fri Nov 20 19:28:21 2026\t999999999999999\t0\t1\t1\t1",
		"starttime\tseconds\tctime\tdtime\tttime\twait",
	} {
		report, _, _ := reduced(t, "ab", abTable+row+"\n")
		expect(t, row, report.Rows, 3)
		expect(t, row, report.Unread.Count, 1)
		expect(t, row, *report.Unread.First, row)
	}
	report, _, _ := reduced(t, "ab", strings.TrimSuffix(abTable, "\n"))
	expect(t, "a truncated row may lack digits", report.Rows, 2)
	expect(t, "and is counted", report.Unread.Count, 1)
	expect(t, "ended", report.Ended, endedCut)
}

func TestSiege(t *testing.T) {
	report, histogram, rest := reduced(t, "siege", ""+
		"** SIEGE 4.0.7\n"+
		"HTTP/1.1 200     0.01 secs:      12 bytes ==> GET  /\n"+
		"\x1b[0;34mHTTP/1.1 200     0.00 secs:    1600 bytes ==> GET  /a secs: b\x1b[0m\n"+
		"\x1b[0;32mHTTP/1.1 304(C) 10.25 secs:       0 bytes ==> GET  /\x1b[0m\n"+
		"HTTP/1.1 304 (C)  0.02 secs:       0 bytes ==> GET  /\n"+
		"[Fri, 2026-11-20 19:28:21] HTTP/1.0 404     0.01 secs:      12 bytes ==> GET  /\n"+
		"   7) HTTP/1.1 200   0.03 secs:      12 bytes ==> GET  /\n"+
		"HTTP/1.1 200   0.02 secs:      12 bytes ==> /index.html\n"+ // siege 2
		"[error] socket: unable to connect\n"+
		"FTP/220   0.01 secs:      12 bytes ==> GET  /\n")
	expectMap(t, "counts", counts(histogram), map[int64]int64{0: 1, 10_000: 2, 20_000: 2, 30_000: 1, 10_249_728: 1})
	expectMap(t, "status", report.Status, map[string]int64{"200": 4, "304": 2, "404": 1})
	expect(t, "bytes", report.BytesIn.Int64(), 12*4+1600)
	expect(t, "max", report.Latency.MaxNS, 10_250_000_000)
	expect(t, "unread", report.Unread.Count, 0)
	expect(t, "the rest", rest, "** SIEGE 4.0.7\n[error] socket: unable to connect\nFTP/220   0.01 secs:      12 bytes ==> GET  /\n")
	if report.Span != nil {
		t.Error("siege prints no offsets")
	}
}

func TestSiegeInvalidRows(t *testing.T) {
	for _, row := range []string{
		"HTTP/1.1 200     nan secs:      12 bytes ==> GET  /",
		"HTTP/1.1 200    -0.01 secs:      12 bytes ==> GET  /",
		"HTTP/1.1 200     0,01 secs:      12 bytes ==> GET  /",
		"HTTP/1.1 200     0.1 secs:      12 bytes ==> GET  /",
		"HTTP/1.1     0.01 secs:      12 bytes ==> GET  /",
		"HTTP/1.1 20     0.01 secs:      12 bytes ==> GET  /",
		"HTTP/1.1 200     0.01 secs:      -1 bytes ==> GET  /",
		"HTTP/1.1 200     0.01 secs:      12",
		"HTTP/1.1 200     0.01 secs: HTTP/1.1 200     0.01 secs:      12 bytes ==> GET  /",
		"\x1b[0;34mHTTP/1.1 200 \x1b[0;3  0.01 secs:   12 bytes ==> GET  /",
	} {
		report, _, rest := reduced(t, "siege", row+"\n")
		expect(t, row, report.Rows, 0)
		expect(t, row, report.Unread.Count, 1)
		expect(t, row, rest, "")
	}
}

func TestLinesAreUnchanged(t *testing.T) {
	long := strings.Repeat("x", 2*bufferSize+17)
	for _, text := range []string{"", "\n", "a", "a\n", "a\n\nb", "a\nb\n", long, long + "\n", long + "\nb\n", "b\n" + long} {
		for name, in := range map[string]io.Reader{
			"whole":                         strings.NewReader(text),
			"byte by byte":                  iotest.OneByteReader(strings.NewReader(text)),
			"in halves":                     iotest.HalfReader(strings.NewReader(text)),
			"with the end in the last read": iotest.DataErrReader(strings.NewReader(text)),
		} {
			out, ended, err := joined(in)
			if out != text {
				t.Errorf("%s: input of %d bytes, different output of %d bytes", name, len(text), len(out))
			}
			isWhole := text == "" || strings.HasSuffix(text, "\n")
			expect(t, name, ended, map[bool]ending{true: endedWhole, false: endedCut}[isWhole])
			expect(t, name, err, nil)
		}
	}
	_, ended, err := joined(iotest.TimeoutReader(strings.NewReader(long)))
	expect(t, "a read that fails", err, iotest.ErrTimeout)
	expect(t, "a read that fails", ended, endedCut)
}

// joined returns the concatenated lines of eachLine.
func joined(in io.Reader) (string, ending, error) {
	var out strings.Builder
	ended, err := eachLine(in, func(line []byte, ended bool) {
		out.Write(line)
		if ended {
			out.WriteByte('\n')
		}
	})
	return out.String(), ended, err
}

func TestSumNeverOverflows(t *testing.T) {
	var sum sum
	want := new(big.Int)
	for _, n := range []uint64{1, 1 << 40, 1<<63 - 1} {
		sum.add(longest*unit, n)
		want.Add(want, new(big.Int).Mul(big.NewInt(longest*unit), new(big.Int).SetUint64(n)))
	}
	expect(t, "sum", sum.whole().String(), want.String())
}

func TestSecondsOutsideTheRangeAreCountedWithoutMemory(t *testing.T) {
	var seconds seconds
	for _, second := range []int64{1000, 1000, 1000 + secondsAfter - 1, 1000 + secondsAfter, 1000 - secondsBefore, 999 - secondsBefore, -1 << 63, 1<<63 - 1} {
		seconds.add(second)
	}
	expect(t, "beyond", seconds.beyond, 4)
	expect(t, "near", len(seconds.document(eventEnd).Counts), 3)
}

func TestErrorsBeyondTheFirstAreCounted(t *testing.T) {
	tally := newTally(0)
	for range 2 {
		for i := range maxErrors + 5 {
			tally.addError(strings.Repeat("e", i))
		}
	}
	expect(t, "kept", len(tally.errors), maxErrors)
	expect(t, "others", tally.otherErrors, 10)
	tally = newTally(0)
	tally.addError("read tcp 127.0.0.1:40001->127.0.0.1:80: read: connection reset by peer")
	tally.addError("read tcp 127.0.0.1:40002->127.0.0.1:80: read: connection reset by peer")
	expectMap(t, "ports", tally.errors, map[string]int64{"read tcp 127.0.0.1:*->127.0.0.1:80: read: connection reset by peer": 2})
}

func TestRestHasALimit(t *testing.T) {
	report, _, rest := reduced(t, "siege", strings.Repeat("x\n", maxRest))
	expect(t, "kept", len(rest), maxRest)
	expect(t, "dropped", report.Rest.Dropped, maxRest)
}
