package main

import (
	"encoding/binary"
	"encoding/gob"
	"errors"
	"io"
)

// vegeta attack writes every result at once as a message of Go's gob encoding; a second vegeta would convert it to text.
// Decoding gob here costs as much as in that process, and saves writing and parsing the text. Fields that hit does not
// name are skipped; with -max-body=0 they are small.

// hit has the fields of vegeta's Result that are counted.
type hit struct {
	// Seq numbers the requests in the order in which they were sent, from 0.
	Seq uint64
	// Code is the status code, or 0 without a response.
	Code      uint16
	Timestamp instant
	// Latency is in nanoseconds.
	Latency           int64
	BytesOut, BytesIn uint64
	// Error is the error message; for a status above 399 or below 200 it is the status line.
	Error string
}

// instant is a gob-encoded time.Time in nanoseconds since the epoch.
type instant int64

// GobDecode decodes the output of time.Time's MarshalBinary: a version, seconds since the year 1, nanoseconds, a zone.
func (i *instant) GobDecode(data []byte) error {
	const secondsToEpoch = 62_135_596_800
	if len(data) < 15 || data[0] == 0 || data[0] > 2 {
		return errors.New("not a time")
	}
	second := int64(binary.BigEndian.Uint64(data[1:])) - secondsToEpoch
	nano := int64(int32(binary.BigEndian.Uint32(data[9:])))
	if second < 0 || second > maxUnixSecond || nano < 0 || nano >= 1e9 {
		return errors.New("a time before 1970 or after 2262")
	}
	*i = instant(second*1e9 + nano)
	return nil
}

func readVegeta(in io.Reader, to *tally) (ending, error) {
	to.bytesIn, to.bytesOut = &sum{}, &sum{}
	decoder := gob.NewDecoder(in)
	for {
		var hit hit // gob leaves out fields that are zero
		err := decoder.Decode(&hit)
		switch {
		case err == io.EOF:
			return endedWhole, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return endedCut, nil
		case err != nil:
			to.addUnread([]byte(err.Error()))
			return endedDamaged, nil
		}
		start := int64(hit.Timestamp)
		if hit.Code > 999 || start == 0 || hit.Latency < 0 || hit.Latency > longest*unit {
			to.addUnread([]byte("a result with an impossible status, time or latency"))
			continue
		}
		late, isDue := to.schedule.late(start, hit.Seq)
		if !isDue || !to.add(late+hit.Latency, 1) {
			to.addUnread([]byte("a result with a number that no run reaches, or sent more than an hour late"))
			continue
		}
		to.addLate(late)
		to.status[hit.Code]++
		if hit.Error != "" {
			to.addError(hit.Error)
		}
		to.bytesIn.add(hit.BytesIn, 1)
		to.bytesOut.add(hit.BytesOut, 1)
		to.addTimes(start, start+hit.Latency, late+hit.Latency, isFailure(int64(hit.Code)))
	}
}
