package main

import (
	"encoding/json"
	"math/big"
	"strconv"
)

// version is the version of the document; readers reject others.
const version = 1

// report is the format of the file, which benchkit/load/reducer_output.py reads. Times are nanoseconds,
// sizes bytes; null is a value that the tool does not print, or that no row has.
type report struct {
	Reduction    int              `json:"reduction"`
	Tool         string           `json:"tool"`
	Ended        ending           `json:"ended"`
	Rows         int64            `json:"rows"`
	Unread       unreadRows       `json:"unread"`
	ResolutionNS int64            `json:"resolution_ns"`
	Latency      *latency         `json:"latency"`
	Lag          *latency         `json:"lag"`
	Status       map[string]int64 `json:"status"`
	Errors       map[string]int64 `json:"errors"`
	OtherErrors  int64            `json:"other_errors"`
	BytesIn      *big.Int         `json:"bytes_in"`
	BytesOut     *big.Int         `json:"bytes_out"`
	Span         *spanned         `json:"span"`
	Seconds      *bySecond        `json:"seconds"`
	Series       *secondsRead     `json:"series"`
	Classes      []classRead      `json:"classes,omitempty"`
	Rest         restSize         `json:"rest"`
}

type unreadRows struct {
	Count int64   `json:"count"`
	First *string `json:"first"`
}

// latency, and the lag of requests sent later than they were due, has the histogram in HdrHistogram's compressed V2 encoding, base64, in units of a microsecond; its lowest,
// highest and sum are exact.
type latency struct {
	HistogramUS string   `json:"histogram_us"`
	MinNS       int64    `json:"min_ns"`
	MaxNS       int64    `json:"max_ns"`
	SumNS       *big.Int `json:"sum_ns"`
}

// spanned is the period of the requests, by the tool's or the host's clock, and the number of those that ended after the
// last one had started.
type spanned struct {
	Origin       origin `json:"origin"`
	FirstStartNS int64  `json:"first_start_ns"`
	LastStartNS  int64  `json:"last_start_ns"`
	LastEndNS    int64  `json:"last_end_ns"`
	EndedLater   int    `json:"ended_later"`
}

// bySecond counts requests by the second in which they began or ended, from the origin of the span.
type bySecond struct {
	Event  event      `json:"event"`
	Counts [][2]int64 `json:"counts"`
	Beyond int64      `json:"beyond"`
}

type restSize struct {
	Bytes   int   `json:"bytes"`
	Dropped int64 `json:"dropped"`
}

// document is the content of the file to write.
func document(from tool, tally *tally, ended ending) ([]byte, error) {
	report := report{
		Reduction:    version,
		Tool:         from.name,
		Ended:        ended,
		Rows:         tally.rows,
		Unread:       unreadRows{Count: tally.unread},
		ResolutionNS: from.resolution.Nanoseconds(),
		Status:       map[string]int64{},
		Errors:       tally.errors,
		OtherErrors:  tally.otherErrors,
		Series:       tally.series.document(),
		Rest:         restSize{tally.rest.kept.Len(), tally.rest.dropped},
	}
	if tally.unread > 0 {
		report.Unread.First = &tally.firstUnread
	}
	for code, n := range tally.status {
		if n > 0 {
			report.Status[strconv.Itoa(code)] = n
		}
	}
	if tally.bytesIn != nil {
		report.BytesIn = tally.bytesIn.whole()
	}
	if tally.bytesOut != nil {
		report.BytesOut = tally.bytesOut.whole()
	}
	var err error
	if tally.rows > 0 {
		if report.Latency, err = timesOf(tally.histogram, tally.min, tally.max, tally.sum.whole()); err != nil {
			return nil, err
		}
		if lag := tally.lag; lag != nil {
			if report.Lag, err = timesOf(lag.histogram, lag.min, lag.max, lag.sum.whole()); err != nil {
				return nil, err
			}
		}
	}
	if tally.seconds.counts != nil {
		span := &tally.span
		report.Span = &spanned{from.origin, span.firstStart, span.lastStart, span.lastEnd, span.endedLater()}
		report.Seconds = tally.seconds.document(from.event)
	}
	if report.Classes, err = tally.classDocuments(); err != nil {
		return nil, err
	}
	written, err := json.Marshal(report)
	return append(written, '\n'), err
}

func (s *seconds) document(event event) *bySecond {
	counted := &bySecond{Event: event, Counts: [][2]int64{}, Beyond: s.beyond}
	for i, n := range s.counts {
		if n > 0 {
			counted.Counts = append(counted.Counts, [2]int64{s.first + int64(i), n})
		}
	}
	return counted
}
