package main

import "math/bits"

// maxSeconds is the length of the longest series; what happens later is only counted.
const maxSeconds = 3600

// series has what happened in each second from the first request on. Tools print their rows when requests end, so that
// the first row need not be the first request: the few that began before it count in its second.
type series struct {
	began   int64
	seconds []second
	// beyond counts events after the last second of the series.
	beyond int64
}

// second is one second of a run. bars are the counts of a histogram of the response times of the requests that ended in
// it, in microseconds: HdrHistogram's buckets for two significant digits, fine enough for a median and a p99.
type second struct {
	started, ended, errors int64
	bars                   []int64
}

// add counts a request by the seconds in which it started and ended; took is its response time, or negative where it has
// none.
func (s *series) add(start, end, took int64, failed bool) {
	if s.seconds == nil {
		s.began = start
	}
	if at := s.at(start); at != nil {
		at.started++
	}
	at := s.at(end)
	if at == nil {
		return
	}
	at.ended++
	if failed {
		at.errors++
	}
	if took >= 0 {
		at.addBar((took + unit/2) / unit)
	}
}

// at returns the second of an instant, or nil beyond the series.
func (s *series) at(instant int64) *second {
	number := max(instant-s.began, 0) / 1e9
	if number >= maxSeconds {
		s.beyond++
		return nil
	}
	for int64(len(s.seconds)) <= number {
		s.seconds = append(s.seconds, second{})
	}
	return &s.seconds[number]
}

const barBits = 7 // log2 of the buckets in a doubling, for two significant digits

func (s *second) addBar(micros int64) {
	doublings := max(bits.Len64(uint64(micros))-(barBits+1), 0)
	index := doublings<<barBits + int(micros>>doublings)
	if missing := index + 1 - len(s.bars); missing > 0 {
		s.bars = append(s.bars, make([]int64, missing)...)
	}
	s.bars[index]++
}

// secondsRead is the series in the document.
type secondsRead struct {
	Seconds []secondRead `json:"seconds"`
	Beyond  int64        `json:"beyond"`
}

type secondRead struct {
	Started int64 `json:"started"`
	Ended   int64 `json:"ended"`
	Errors  int64 `json:"errors"`
	// Bars are the indexes and counts of the buckets that have a count.
	Bars [][2]int64 `json:"bars"`
}

// document returns the series, or nil without any request.
func (s *series) document() *secondsRead {
	if s.seconds == nil {
		return nil
	}
	read := &secondsRead{Seconds: make([]secondRead, len(s.seconds)), Beyond: s.beyond}
	for i, each := range s.seconds {
		bars := [][2]int64{}
		for index, count := range each.bars {
			if count > 0 {
				bars = append(bars, [2]int64{int64(index), count})
			}
		}
		read.Seconds[i] = secondRead{each.started, each.ended, each.errors, bars}
	}
	return read
}
