package main

import (
	"encoding/binary"
	"encoding/gob"
	"errors"
	"io"
)

// vegeta attack writes every result, as it comes, as a message of Go's gob encoding; what prints text is a second
// vegeta. Reading gob here costs what that one would pay to read it, and saves printing and reading the text. Fields not
// named in hit are skipped unread: with -max-body=0 there is little else.

// hit is the part of vegeta's Result that counts.
type hit struct {
	// Code is the status code, or 0 where there was no answer.
	Code      uint16
	Timestamp instant
	// Latency is in nanoseconds.
	Latency           int64
	BytesOut, BytesIn uint64
	// Error says what failed; for an answer above 399 or below 200 it is the status line.
	Error string
}

// instant is a time.Time as gob has it, in nanoseconds since the epoch.
type instant int64

// GobDecode reads what time.Time's MarshalBinary writes: a version, seconds since the year 1, nanoseconds, a zone.
func (i *instant) GobDecode(data []byte) error {
	const secondsToEpoch = 62_135_596_800
	if len(data) < 15 || data[0] == 0 || data[0] > 2 {
		return errors.New("no time")
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
		var hit hit // fields that are zero are not in the message
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
		if hit.Code > 999 || hit.Timestamp == 0 || !to.add(hit.Latency, 1) {
			to.addUnread([]byte("a result with an impossible status, time or latency"))
			continue
		}
		to.status[hit.Code]++
		if hit.Error != "" {
			to.addError(hit.Error)
		}
		to.bytesIn.add(hit.BytesIn, 1)
		to.bytesOut.add(hit.BytesOut, 1)
		start := int64(hit.Timestamp)
		to.span.add(start, start+hit.Latency)
		to.seconds.add((start + hit.Latency) / 1e9)
	}
}
