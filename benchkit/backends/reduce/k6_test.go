package main

import (
	"testing"
)

const (
	k6Rows = "metric_name,timestamp,metric_value,error,error_code,status,extra_tags,metadata\n" +
		"http_reqs,1795746146193832558,1.000000,,,200,,\n" +
		"http_req_duration,1795746146193832558,31.528434,,,200,,\n" +
		"http_req_blocked,1795746146193832558,0.280387,,,200,,\n"
	k6Later   = "http_req_duration,1795746148193832558,1.000000,,,404,,\n"
	k6Refused = "http_req_duration,1795746146293832558,0.000000,\"dial tcp 127.0.0.1:1: \"\"refused\"\", twice\",1212,0,,\n"
)

func TestK6CountsDurationsAndPassesTextOn(t *testing.T) {
	report, histogram, rest := reduced(t, "k6", "a script said this\n"+k6Rows+k6Later+k6Refused+"\n    http_reqs: 3  1.5/s\n")
	expect(t, "rows", report.Rows, 2)
	expectMap(t, "counts", counts(histogram), map[int64]int64{1000: 1, 31528: 1})
	expectMap(t, "statuses", report.Status, map[string]int64{"200": 1, "404": 1})
	expectMap(t, "errors", report.Errors, map[string]int64{`dial tcp 127.0.0.1:1: "refused", twice`: 1})
	expect(t, "text", rest, "a script said this\n\n    http_reqs: 3  1.5/s\n")
	expect(t, "first start", report.Span.FirstStartNS, 1795746146193832558-31528434)
	expect(t, "last end", report.Span.LastEndNS, 1795746148193832558)
	expect(t, "unread", report.Unread.Count, 0)
}

func TestK6FindsColumnsByTheTagsOfAScript(t *testing.T) {
	report, _, _ := reduced(t, "k6", "metric_name,timestamp,metric_value,check,group,name,status,url,extra_tags,metadata\n"+
		"http_req_duration,1795746146193832558,2.000000,,,\"a,b\",503,\"http://h/a,b\",k=v,\n")
	expectMap(t, "statuses", report.Status, map[string]int64{"503": 1})
}

func TestK6CountsDamagedRows(t *testing.T) {
	for _, row := range []string{
		"http_req_duration,1795746146193832558,1.5,,,200,,\n",
		"http_req_duration,1795746146193832558,1.500000,,,20,,\n",
		"http_req_duration,1795746146193832558,1.500000\n",
		"http_req_duration,9995746146193832558,1.500000,,,200,,\n",
	} {
		report, _, _ := reduced(t, "k6", k6Rows+row)
		expect(t, row, report.Unread.Count, 1)
		expect(t, row, report.Rows, 1)
	}
}
