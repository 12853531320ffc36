package main

import (
	"strings"
	"testing"
)

const heyRows = "benchkit rows of hey: time_s,status,offset_s\n" +
	"0.000239526,200,0.000131\n" +
	"12.000000001,503,61.999999\n"

func TestHey(t *testing.T) {
	counters := "--- benchkit counters of hey 1\nrequests 3\n0.000239526,200,0.000131\n--- end of benchkit counters of hey\n"
	report, histogram, rest := reduced(t, "hey", heyRows+counters+"\n")
	expect(t, "tool", report.Tool, "hey")
	expect(t, "resolution", report.ResolutionNS, 1)
	expect(t, "rows", report.Rows, 2)
	expect(t, "unread", report.Unread.Count, 0)
	expect(t, "ended", report.Ended, endedWhole)
	expectMap(t, "counts", counts(histogram), map[int64]int64{240: 1, 11999744: 1}) // 12 s within 1/16384
	expectMap(t, "status", report.Status, map[string]int64{"200": 1, "503": 1})
	expect(t, "min", report.Latency.MinNS, 239_526)
	expect(t, "max", report.Latency.MaxNS, 12_000_000_001)
	expect(t, "span", *report.Span, spanned{originRun, 131_000, 61_999_999_000, 73_999_999_001, 1})
	expect(t, "rest", rest, counters+"\n")
}

func TestHeyWithoutResponses(t *testing.T) {
	heading, _, _ := strings.Cut(heyRows, "\n")
	report, _, rest := reduced(t, "hey", heading+"\n--- benchkit counters of hey 1\nrequests 3\n")
	expect(t, "rows", report.Rows, 0)
	expect(t, "unread", report.Unread.Count, 0)
	expect(t, "rest", rest, "--- benchkit counters of hey 1\nrequests 3\n")
}

func TestHeyInvalidRows(t *testing.T) {
	for _, row := range []string{
		"0.00023952,200,0.000131", "0.000239526,200", "0.000239526,20,0.000131", "NaN,200,0.000131",
		"-0.000239526,200,0.000131", "0.000239526,200,0.000131,1", "9000.000000000,200,0.000131", "Summary:",
	} {
		report, _, _ := reduced(t, "hey", heyRows+row+"\n")
		expect(t, row, report.Rows, 2)
		expect(t, row, report.Unread.Count, 1)
	}
	cut, _, _ := reduced(t, "hey", strings.TrimSuffix(heyRows, "9\n"))
	expect(t, "a truncated row", cut.Rows, 1)
	expect(t, "a truncated row", cut.Ended, endedCut)
	summary, _, _ := reduced(t, "hey", "\nSummary:\n  Total:\t0.5 secs\n")
	expect(t, "a hey without templates", summary.Unread.Count, 2)
}

func TestH2load(t *testing.T) {
	before, after := "starting benchmark...\nprogress: 10% done\n", "\nfinished in 1.00s, 3.00 req/s, 3KB/s\n"
	report, histogram, rest := reduced(t, "h2load", before+
		"1795204876699885\t200\t460\n1795204877699885\t404\t25\textra\n1795204876699890\t-1\t9\n"+after)
	expectMap(t, "counts", counts(histogram), map[int64]int64{460: 1, 25: 1})
	expectMap(t, "status", report.Status, map[string]int64{"200": 1, "404": 1})
	expectMap(t, "errors", report.Errors, map[string]int64{"the stream failed": 1})
	expect(t, "rows", report.Rows, 2)
	expect(t, "unread", report.Unread.Count, 0)
	expect(t, "rest", rest, before+after)
	expect(t, "resolution", report.ResolutionNS, 1000)
	expect(t, "span", *report.Span, spanned{originUnix, 1795204876699885000, 1795204877699885000, 1795204877699910000, 1})
}

func TestH2loadInvalidRows(t *testing.T) {
	good := "1795204876699885\t200\t460\n"
	for _, row := range []string{
		"1795204876699885\t200", "1795204876699885\t20\t460", "1795204876699885\t-2\t460", "1795204876699885\t200\tx",
		"progress: 1795204876699885\t200\t460", "1795204876699885\t200\t3600000001", "99999999999999999\t200\t4",
	} {
		report, _, _ := reduced(t, "h2load", good+row+"\n"+good)
		expect(t, row, report.Rows, 2)
		expect(t, row, report.Unread.Count, 1)
	}
	cut, _, _ := reduced(t, "h2load", good+strings.TrimSuffix(good, "\n"))
	expect(t, "a truncated row", cut.Rows, 1)
	expect(t, "a truncated row", cut.Unread.Count, 1)
}
