package main

import (
	"bytes"
	"math"
	"math/big"
	"math/bits"
	"regexp"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histogram counts microseconds up to an hour, which is longer than any timeout. Its four significant digits give a
// relative precision of 1/16384, which is at least the resolution of wrk (10 µs) up to 0.26 s, ab (1 ms) up to 16 s and siege
// (10 ms) up to 160 s. Three digits would lose precision of ab's values above 1 s. It takes 2.5 MB, and about ten kilobytes
// when written.
const (
	unit    = 1000 // ns
	longest = 3_600_000_000
	digits  = 4
)

// maxErrors is the number of different messages that are counted separately, maxQuoted the length in bytes to which a row
// is quoted, maxRest the limit in bytes for text that is not a row.
const (
	maxErrors  = 50
	maxMessage = 200
	maxRest    = 1 << 20
)

// tally is the summary of all rows so far. Times are nanoseconds.
type tally struct {
	histogram *hdrhistogram.Histogram
	rows      int64
	min, max  int64
	sum       sum

	status [1000]int64
	errors map[string]int64
	// otherErrors counts those with a message beyond the first maxErrors.
	otherErrors int64

	// bytesIn and bytesOut are nil where the tool does not print them.
	bytesIn, bytesOut *sum

	// schedule has the instants at which requests were due, and lag how much later they were sent.
	schedule schedule
	lag      *lag

	span    span
	seconds seconds
	series  series

	// classes has the requests by the number of their class.
	classes map[uint8]*class

	unread      int64
	firstUnread string
	rest        rest
}

// newTally returns an empty tally of requests that were due at this interval in nanoseconds; 0: at no known time.
func newTally(interval int64) *tally {
	tally := &tally{
		histogram: hdrhistogram.New(1, longest, digits),
		min:       math.MaxInt64,
		errors:    map[string]int64{},
		schedule:  schedule{interval: interval, began: math.MaxInt64},
		span:      span{firstStart: math.MaxInt64, lastStart: math.MinInt64, lastEnd: math.MinInt64},
	}
	if interval > 0 {
		tally.lag = newLag()
	}
	return tally
}

// add counts n requests of this duration, or returns false if it is beyond the range of the histogram.
func (t *tally) add(took, n int64) bool {
	if took < 0 || t.histogram.RecordValues((took+unit/2)/unit, n) != nil {
		return false
	}
	t.rows += n
	t.min = min(t.min, took)
	t.max = max(t.max, took)
	t.sum.add(uint64(took), uint64(n))
	return true
}

// addError counts a failed request by its message, without the port of the client, which differs in each failure.
func (t *tally) addError(message string) {
	message = clientPort.ReplaceAllString(quotable([]byte(message)), ":*->")
	if _, known := t.errors[message]; known || len(t.errors) < maxErrors {
		t.errors[message]++
		return
	}
	t.otherErrors++
}

var clientPort = regexp.MustCompile(`:[0-9]{1,5}->`)

// addUnread counts a row that could not be parsed.
func (t *tally) addUnread(row []byte) {
	if t.unread == 0 {
		t.firstUnread = quotable(row)
	}
	t.unread++
}

// quotable returns the beginning of a text as valid UTF-8.
func quotable(text []byte) string {
	return string(bytes.ToValidUTF8(text[:min(len(text), maxMessage)], []byte("\uFFFD")))
}

// sum adds numbers without overflow.
type sum struct{ high, low uint64 }

// add adds value × n.
func (s *sum) add(value, n uint64) {
	high, low := bits.Mul64(value, n)
	var carry uint64
	s.low, carry = bits.Add64(s.low, low, 0)
	s.high += high + carry
}

func (s *sum) whole() *big.Int {
	high := new(big.Int).SetUint64(s.high)
	return high.Lsh(high, 64).Add(high, new(big.Int).SetUint64(s.low))
}

// addTimes counts a request, of which a tool prints start and end, by its second; took is its response time, or negative
// where it has none. Times are nanoseconds.
func (t *tally) addTimes(start, end, took int64, failed bool) {
	t.series.add(start, end, took, failed)
	if took >= 0 {
		t.span.add(start, end)
		t.seconds.add(end / 1e9)
	}
}

// isFailure is true for the status of an answer that is an error, and for 0, no answer.
func isFailure(status int64) bool { return status < 200 || status >= 400 }

// addLate counts the time in nanoseconds by which a request was sent after it was due, where that is known.
func (t *tally) addLate(late int64) {
	if t.lag != nil {
		t.lag.add(late)
	}
}

// longestRun is a week in nanoseconds, the longest time of a load.
const longestRun = 7 * 86_400 * 1_000_000_000

// schedule is a constant rate of requests, numbered from 0.
type schedule struct {
	// interval is the time in nanoseconds between two requests; 0: there is no schedule.
	interval int64
	// began is the latest instant at which the first request can have been due: no request so far was sent too early.
	began int64
}

// late returns the nanoseconds by which a request was sent after it was due, or false for a number that is out of range.
func (s *schedule) late(start int64, number uint64) (int64, bool) {
	if s.interval == 0 {
		return 0, true
	}
	if number > uint64(longestRun/s.interval) {
		return 0, false
	}
	due := int64(number) * s.interval
	s.began = min(s.began, start-due)
	return start - due - s.began, true
}

// lag is how much later than due requests were sent; like latencies, in nanoseconds.
type lag struct {
	histogram *hdrhistogram.Histogram
	min, max  int64
	sum       sum
}

func newLag() *lag { return &lag{histogram: hdrhistogram.New(1, longest, digits), min: math.MaxInt64} }

// add counts a time up to `longest`, which a latency that includes it has been checked against.
func (l *lag) add(late int64) {
	if l.histogram.RecordValue((late+unit/2)/unit) != nil {
		return
	}
	l.min = min(l.min, late)
	l.max = max(l.max, late)
	l.sum.add(uint64(late), 1)
}

// span is the period of the requests.
type span struct {
	firstStart, lastStart, lastEnd int64
	// later are ends after the last start, and some before it.
	later []int64
	// room is the length of later at which the ends before the last start are removed.
	room int
}

const minRoom = 1024

func (s *span) add(start, end int64) {
	s.firstStart = min(s.firstStart, start)
	s.lastStart = max(s.lastStart, start)
	s.lastEnd = max(s.lastEnd, end)
	if end <= s.lastStart {
		return
	}
	s.later = append(s.later, end)
	if len(s.later) >= max(s.room, minRoom) {
		s.room = 2 * s.endedLater()
	}
}

// endedLater returns the number of requests that ended after the last one had started.
func (s *span) endedLater() int {
	s.later = slices.DeleteFunc(s.later, func(end int64) bool { return end <= s.lastStart })
	return len(s.later)
}

// secondsBefore and secondsAfter limit the range of seconds around that of the first row: a row may be printed an hour after
// its request began, and no trial takes longer than a day.
const (
	secondsBefore = 3600
	secondsAfter  = 86400
)

// seconds counts events by second.
type seconds struct {
	counts []int64
	first  int64
	// beyond counts events outside of the range.
	beyond int64
}

func (s *seconds) add(second int64) {
	if s.counts == nil {
		s.counts = make([]int64, secondsBefore+secondsAfter)
		s.first = second - secondsBefore
	}
	if at := uint64(second - s.first); at < uint64(len(s.counts)) {
		s.counts[at]++
		return
	}
	s.beyond++
}

// rest is the text that the tool prints apart from its rows.
type rest struct {
	kept    bytes.Buffer
	dropped int64
}

func (r *rest) add(text []byte, newline bool) {
	room := min(len(text), maxRest-r.kept.Len())
	r.kept.Write(text[:room])
	r.dropped += int64(len(text) - room)
	if newline {
		if r.kept.Len() < maxRest {
			r.kept.WriteByte('\n')
		} else {
			r.dropped++
		}
	}
}

// whole parses a number of at most eighteen digits.
func whole(digits []byte) (int64, bool) {
	n, rest, okay := leadingDigits(digits)
	return n, okay && len(rest) == 0
}

// leadingDigits parses the number of at most eighteen digits at the start of a text, and returns the text after it.
func leadingDigits(text []byte) (n int64, rest []byte, okay bool) {
	length := 0
	for length < len(text) && text[length]-'0' <= 9 {
		n = 10*n + int64(text[length]-'0')
		length++
	}
	return n, text[length:], length > 0 && length <= 18
}

// statusCode parses the three digits of a status code.
func statusCode(text []byte) (int64, bool) {
	code, okay := whole(text)
	return code, okay && len(text) == 3 && code >= 100
}

// fixed parses a decimal number with this number of places, and returns it as a multiple of its last place.
func fixed(text []byte, places int) (int64, bool) {
	point := len(text) - places - 1
	if point < 1 || point > 9 || text[point] != '.' {
		return 0, false
	}
	before, okay := whole(text[:point])
	after, alsoOkay := whole(text[point+1:])
	for range places {
		before *= 10
	}
	return before + after, okay && alsoOkay
}
