package main

import "testing"

// FuzzTools checks for any input that nothing panics, and that the histogram has one count for each row.
func FuzzTools(f *testing.F) {
	f.Add("ab", []byte("Benchmarking (be patient)..."+abTable+"..done\n"))
	f.Add("siege", []byte("\x1b[0;34mHTTP/1.1 200(C) 0.01 secs:      12 bytes ==> GET  /\x1b[0m\n[alert] x\n"))
	f.Add("vegeta", []byte(encoded(f, someResults()...)))
	f.Add("hey", []byte(heyRows+"--- benchkit counters of hey 1\nrequests 2\n"))
	f.Add("h2load", []byte("starting benchmark...\n1795204876699885\t200\t460\n1795204876699886\t-1\t7\nfinished in 1.00s\n"))
	f.Add("openloop", []byte(openloopRows(exchange{1795204876699885000, 1000, 2000, 12, 200, 1, 0}, exchange{1795204876699885000, 0, 9, 0, 0, 0, 0})))
	f.Add("k6", []byte(k6Rows+k6Refused+"\n    http_reqs: 2  1.5/s\n"))
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
		if name == "siege" || name == "vegeta" || name == "h2load" || name == "hey" || name == "k6" || name == "openloop" {
			expect(t, "statuses", statuses, report.Rows)
		}
		if len(rest) > len(input) {
			t.Error("the output is longer than the input")
		}
	})
}
