package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// FuzzTools checks for any input that nothing panics, and that the histogram has one count for each row.
func FuzzTools(f *testing.F) {
	f.Add("hey", []byte(heyFull+"0.0020,0.0002,0.0000,0.0000,0.0016,0.0000,200,0.0001\n12.0020,0.0002,0.0000,0.0000,0.0016,0.0000,200,0.0001\n"))
	f.Add("ab", []byte("Benchmarking (be patient)..."+abTable+"..done\n"))
	f.Add("siege", []byte("\x1b[0;34mHTTP/1.1 200(C) 0.01 secs:      12 bytes ==> GET  /\x1b[0m\n[alert] x\n"))
	f.Add("vegeta", []byte(encoded(f, someResults()...)))
	f.Add("hey-template", []byte(heyTemplateRows+"--- benchkit counters of hey 1\nrequests 2\n"))
	f.Add("h2load", []byte("starting benchmark...\n1795204876699885\t200\t460\n1795204876699886\t-1\t7\nfinished in 1.00s\n"))
	f.Fuzz(func(t *testing.T, name string, input []byte) {
		if _, known := tools[name]; !known {
			return
		}
		report, histogram, rest := reduced(t, name, string(input))
		var total, statuses int64
		for _, n := range counts(histogram) {
			total += n
		}
		for _, n := range report.Status {
			statuses += n
		}
		expect(t, "counts", total, report.Rows)
		if name == "siege" || name == "vegeta" || name == "h2load" || name == "hey-template" {
			expect(t, "statuses", statuses, report.Rows)
		}
		if name == "hey" {
			lines := bytes.FieldsFunc(input, func(r rune) bool { return r == '\n' })
			heading := 0
			for _, line := range lines {
				if new(hey).takeHeading(line) {
					heading = 1 // the first one; another would be an unread row
				}
			}
			expect(t, "every line is accounted for", report.Rows+report.Unread.Count, int64(len(lines)-heading))
		}
		if len(rest) > len(input) {
			t.Error("the output is longer than the input")
		}
	})
}

// TestFastAndSlowAgree compares the two parsers on rows of hey, and on rows with one byte changed.
func TestFastAndSlowAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	time := func() string { return fmt.Sprintf("%.4f", 10*random.Float64()*random.Float64()) }
	fast := hey{to: newTally(), hasPhases: true, hasStatus: true, hasOffset: true}
	slow := hey{to: newTally(), hasPhases: true, hasStatus: true, hasOffset: true}
	for range 200_000 {
		row := []byte(strings.Join([]string{time(), time(), time(), time(), time(), time()}, ",") +
			fmt.Sprintf(",%d,%.4f", 100+random.IntN(900), 1000*random.Float64()*random.Float64()))
		if random.IntN(2) == 0 {
			row[random.IntN(len(row))] = byte(random.IntN(256))
		}
		if fast.takeFast(row) && !slow.takeSlow(row) {
			t.Fatalf("only the fast parser accepts %q", row)
		}
	}
	fast.flush()
	one, other := fast.to, slow.to
	if one.rows < 100_000 {
		t.Errorf("the fast parser accepted only %d rows", one.rows)
	}
	expect(t, "rows", one.rows, other.rows)
	expect(t, "sum", one.sum, other.sum)
	expect(t, "lowest", one.min, other.min)
	expect(t, "highest", one.max, other.max)
	expect(t, "status", one.status, other.status)
	expect(t, "span", one.span, other.span)
	expect(t, "seconds", slices.Equal(one.seconds.document(eventEnd).Counts, other.seconds.document(eventEnd).Counts), true)
	expect(t, "histogram", one.histogram.Equals(other.histogram), true)
}
