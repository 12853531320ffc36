package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// outcome is the result of a request; times since the beginning of the run.
type outcome struct {
	arrival
	request  *request
	took     time.Duration
	received int64 // bytes of the body
	status   int   // 0 without a response
	err      error
}

// summary has the counts of a run. Requests are those that got a response, errors the messages of the others.
type summary struct {
	Version  int              `json:"openloop"`
	Duration float64          `json:"duration_s"`
	Requests int64            `json:"requests"`
	Received int64            `json:"bytes"`
	Errors   map[string]int64 `json:"errors"`
	Seed     *uint64          `json:"seed,omitempty"`
	// Handshakes is nil without TLS.
	Handshakes *handshakes `json:"tls,omitempty"`
}

// recorder counts requests, and writes a row for each, many at a time.
type recorder struct {
	out   io.Writer
	began time.Time

	lock    sync.Mutex
	rows    []byte
	summary summary
	failed  error
}

// batch is the size of a write, which a pipe takes as a whole.
const batch = 32 << 10

// add records a request. Its row has 36 bytes, little endian: start in nanoseconds since the epoch, how late that was, time
// and bytes of the response in 64 bits each, the status in 16, the class in 8, and 1 for a response of another size than
// expected in 8.
func (r *recorder) add(o *outcome) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if o.err == nil {
		r.summary.Requests++
		r.summary.Received += o.received
	} else {
		r.summary.Errors[message(o.err)]++
	}
	for _, number := range []int64{r.began.Add(o.start).UnixNano(), int64(o.late), int64(o.took), o.received} {
		r.rows = binary.LittleEndian.AppendUint64(r.rows, uint64(number))
	}
	r.rows = binary.LittleEndian.AppendUint16(r.rows, uint16(o.status))
	var otherSize byte
	if o.err == nil && o.request.hasOtherSize(o.received) {
		otherSize = 1
	}
	if r.rows = append(r.rows, o.request.Class, otherSize); len(r.rows) >= batch {
		r.flush()
	}
}

// flush writes the rows that are not yet written.
func (r *recorder) flush() {
	if r.failed == nil {
		_, r.failed = r.out.Write(r.rows)
	}
	r.rows = r.rows[:0]
}

// message is the message of an error without addresses, whose ports differ.
func message(err error) string {
	var network *net.OpError
	if errors.As(err, &network) {
		return network.Op + " " + network.Err.Error()
	}
	return err.Error()
}
