package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
)

// openloop writes one row of 36 bytes for each request, little endian (backends/openloop/record.go): its start in
// nanoseconds since the epoch, how late that was, the time and the bytes of the response in 64 bits each, the status in
// 16, the class in 8, and 1 for a response of another size than expected in 8. The lateness is negative in a closed loop;
// the status is 0 without a response, and such requests have no response time here.

const openloopRow = 4*8 + 2 + 1 + 1

func readOpenloop(in io.Reader, to *tally) (ending, error) {
	to.bytesIn = &sum{}
	buffered := bufio.NewReaderSize(in, bufferSize)
	row := make([]byte, openloopRow)
	for {
		_, err := io.ReadFull(buffered, row)
		switch {
		case err == io.EOF:
			return endedWhole, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return endedCut, nil
		case err != nil:
			return endedCut, err
		}
		if !takeOpenloop(row, to) {
			to.addUnread([]byte("a request with an impossible time, size or status"))
		}
	}
}

func takeOpenloop(row []byte, to *tally) bool {
	var figures [4]int64
	for i := range figures {
		figures[i] = int64(binary.LittleEndian.Uint64(row[8*i:]))
	}
	start, late, took, received := figures[0], figures[1], figures[2], figures[3]
	status := int64(binary.LittleEndian.Uint16(row[8*len(figures):]))
	class, otherSize := row[openloopRow-2], row[openloopRow-1]
	if start <= 0 || start/1e9 > maxUnixSecond || late < -1 || late > longest*unit || took < 0 || took > longest*unit ||
		received < 0 || status != 0 && (status < 100 || status > 999) || otherSize > 1 {
		return false
	}
	isDue := late >= 0
	if isDue && to.lag == nil && to.rows == 0 {
		to.lag = newLag()
	}
	if isDue != (to.lag != nil) {
		return false
	}
	if status == 0 {
		to.addError("no response")
		to.addTimes(start, start+took, -1, true)
		if class > 0 {
			to.class(class).errors++
		}
		return true
	}
	if !to.add(max(late, 0)+took, 1) {
		return false
	}
	to.addLate(late)
	to.status[status]++
	to.bytesIn.add(uint64(received), 1)
	to.addTimes(start, start+took, max(late, 0)+took, isFailure(status))
	if class > 0 {
		to.class(class).add(max(late, 0)+took, status, received, int64(otherSize))
	}
	return true
}
