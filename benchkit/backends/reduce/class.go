package main

import (
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// classDigits are the significant digits of the histogram of a class: it takes 0.2 MB, and there may be 255 of them.
const classDigits = 3

// class has the requests of one class.
type class struct {
	histogram          *hdrhistogram.Histogram
	min, max           int64
	sum                sum
	status             map[int64]int64
	fewest, most       int64 // bytes of a response
	otherSizes, errors int64
}

// class returns the class of a number.
func (t *tally) class(number uint8) *class {
	if t.classes == nil {
		t.classes = map[uint8]*class{}
	}
	if t.classes[number] == nil {
		t.classes[number] = &class{
			histogram: hdrhistogram.New(1, longest, classDigits),
			min:       math.MaxInt64,
			status:    map[int64]int64{},
			fewest:    math.MaxInt64,
		}
	}
	return t.classes[number]
}

// add counts a response, whose time has been checked to be in the range of the histogram.
func (c *class) add(took, status, received, otherSize int64) {
	if c.histogram.RecordValue((took+unit/2)/unit) != nil {
		return
	}
	c.min, c.max = min(c.min, took), max(c.max, took)
	c.sum.add(uint64(took), 1)
	c.status[status]++
	c.fewest, c.most = min(c.fewest, received), max(c.most, received)
	c.otherSizes += otherSize
}

// classRead is a class in the document; Latency and Bytes are null where none of its requests got a response.
type classRead struct {
	Class      uint8            `json:"class"`
	Latency    *latency         `json:"latency"`
	Status     map[string]int64 `json:"status"`
	Bytes      *[2]int64        `json:"bytes"`
	OtherSizes int64            `json:"other_sizes"`
	Errors     int64            `json:"errors"`
}

// classDocuments returns the classes by their numbers.
func (t *tally) classDocuments() ([]classRead, error) {
	var read []classRead
	for _, number := range slices.Sorted(maps.Keys(t.classes)) {
		each := t.classes[number]
		document := classRead{Class: number, Status: map[string]int64{}, OtherSizes: each.otherSizes, Errors: each.errors}
		for code, n := range each.status {
			document.Status[strconv.FormatInt(code, 10)] = n
		}
		if len(each.status) > 0 {
			times, err := timesOf(each.histogram, each.min, each.max, each.sum.whole())
			if err != nil {
				return nil, err
			}
			document.Latency, document.Bytes = times, &[2]int64{each.fewest, each.most}
		}
		read = append(read, document)
	}
	return read, nil
}

// timesOf returns a histogram as it stands in the document.
func timesOf(histogram *hdrhistogram.Histogram, min, max int64, sum *big.Int) (*latency, error) {
	text, err := histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return &latency{string(text), min, max, sum}, err
}
