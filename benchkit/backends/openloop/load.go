package main

import (
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxWaiting is the number of requests that can wait for a connection; further ones are sent late.
	maxWaiting = 1 << 20
	// maxLate is the time after the end of the schedule at which the program gives up what it has not sent.
	maxLate = time.Second
	// maxConnecting is the least time for connections before the first request: the kernel sends a lost SYN again after a
	// second (RFC 6298, 2.1), and a connection that is later is opened by its first request.
	maxConnecting = time.Second
)

// load is what is sent, how, and to where.
type load struct {
	address     string
	requests    []request
	connections int
	keepalive   bool
	// protocol is one of those in security.go, streams the requests in flight on each connection of HTTP/2 and HTTP/3, tls
	// nil without TLS. isFull has every handshake a full one; isEarly sends first requests within resumed handshakes of HTTP/3
	// (0-RTT).
	protocol string
	streams  int
	tls      *tls.Config
	isFull   bool
	isEarly  bool
	timeout  time.Duration
	// stages are empty for a closed loop of this duration; random is nil for arrivals an interval apart.
	stages   schedule
	duration time.Duration
	random   *rand.Rand
	// due are the instants of requests, in place of stages, and order the places of the requests that are sent, again and
	// again; without it they are sent in turn.
	due   []time.Duration
	order []int
	// lead is the time from the start to the first request, in which connections are opened.
	lead time.Duration
	// free is the number of connections that wait for a request.
	free atomic.Int64
}

// arrival is a request that is due. start is the time from the beginning of the run at which it was sent, or could have been
// if a connection had been free, and late how much that is after it was due; negative in a closed loop.
type arrival struct {
	number      uint64
	start, late time.Duration
	// waits is true if no connection was free.
	waits bool
}

// send sends the load and records it.
func (l *load) send(recorder *recorder) error {
	begins := time.Now().Add(l.lead)
	connections, err := l.connect(recorder.summary.Handshakes)
	if err != nil {
		return err
	}
	time.Sleep(time.Until(begins))
	recorder.began = time.Now()
	next, queue := l.closedLoop(recorder.began), make(chan arrival, maxWaiting)
	if l.isOpen() {
		next = func() (arrival, bool) {
			each, more := <-queue
			return each, more
		}
	}
	var serving sync.WaitGroup
	for _, each := range connections {
		for range max(1, l.streams) {
			serving.Go(func() { l.serve(each, next, recorder) })
		}
	}
	err = l.release(recorder.began, queue)
	serving.Wait()
	recorder.summary.Duration = time.Since(recorder.began).Seconds()
	for _, each := range connections {
		_ = each.close() // the last thing that it does
	}
	recorder.flush()
	return errors.Join(err, recorder.failed)
}

// connect returns the connections, open where they are kept. Where that fails, the first request tries it again.
func (l *load) connect(counts *handshakes) ([]exchanger, error) {
	connections := make([]exchanger, l.connections)
	deadline := time.Now().Add(max(l.lead, maxConnecting))
	var opening sync.WaitGroup
	defer opening.Wait()
	for i := range connections {
		each, err := l.client(counts)
		if err != nil {
			return nil, err
		}
		connections[i] = each
		if l.keepalive {
			opening.Go(func() { _ = each.connect(deadline) })
		}
	}
	return connections, nil
}

// client returns a connection that is not yet open.
func (l *load) client(counts *handshakes) (exchanger, error) {
	if l.tls == nil {
		return &connection{address: l.address, keepalive: l.keepalive}, nil
	}
	config := l.tls.Clone()
	if !l.isFull { // each connection resumes the session of the one before it
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	switch l.protocol {
	case h2:
		return &multiplexed{open: openHTTP2(l.address, config), keepalive: l.keepalive}, nil
	case h3:
		open, err := openHTTP3(l.address, config, l.isEarly, counts)
		return &multiplexed{open: open, keepalive: l.keepalive, isEarly: l.isEarly}, err
	}
	return &connection{address: l.address, keepalive: l.keepalive, tls: config}, nil
}

// release puts each request of the schedule into the queue when it is due, and closes it.
func (l *load) release(began time.Time, queue chan<- arrival) error {
	defer close(queue)
	alarm, err := newAlarm()
	if err != nil {
		return err
	}
	last, number := l.stages.length(), uint64(0)
	instants := l.stages.instants(l.random)
	if len(l.due) > 0 {
		last, instants = l.due[len(l.due)-1], slices.Values(l.due)
	}
	for due := range instants {
		if err := alarm.sleep(due - time.Since(began)); err != nil {
			return err
		}
		now := time.Since(began)
		if now > last+maxLate {
			break
		}
		queue <- arrival{number, now, now - due, l.free.Load() <= int64(len(queue))}
		number++
	}
	return nil
}

// isOpen is true where requests are due, whatever is unanswered.
func (l *load) isOpen() bool { return len(l.stages) > 0 || len(l.due) > 0 }

// request returns the request of this number.
func (l *load) request(number uint64) *request {
	if len(l.order) > 0 {
		number = uint64(l.order[number%uint64(len(l.order))])
	}
	return &l.requests[number%uint64(len(l.requests))]
}

// closedLoop returns a function that has a request whenever it is asked, until the time is over.
func (l *load) closedLoop(began time.Time) func() (arrival, bool) {
	var sent atomic.Uint64
	return func() (arrival, bool) {
		now := time.Since(began)
		return arrival{sent.Add(1) - 1, now, -1, true}, now < l.duration
	}
}

// serve sends requests over a connection until there is none.
func (l *load) serve(c exchanger, next func() (arrival, bool), recorder *recorder) {
	for {
		l.free.Add(1)
		each, more := next()
		l.free.Add(-1)
		if !more {
			return
		}
		if !each.waits {
			waited := time.Since(recorder.began) - each.start
			each.start, each.late = each.start+waited, each.late+waited
		}
		request := l.request(each.number)
		done := outcome{arrival: each, request: request}
		done.status, done.received, done.err = c.exchange(request, recorder.began.Add(each.start+l.timeout))
		done.took = time.Since(recorder.began) - each.start
		recorder.add(&done)
	}
}
