package kit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// faultKinds lists the values of -inject-fault.
const faultKinds = "fail:SHARE, hang:SHARE, delay:TIME, lock:TIME, queue:TIME, slow-start:TIME, open-after:TIME, background:SHARE, linger:TIME, body:other, header:NAME=VALUE"

// slowStartCost is the extra CPU time of a request at the start of slow-start; it decreases linearly to zero. It is several
// times the usual cost of a request, so that the first seconds are clearly slower on any machine.
const slowStartCost = 200 * time.Microsecond

// tick is the time after which background and linger decide again how much they work.
const tick = 10 * time.Millisecond

// Strike is the effect of the faults on one request.
type Strike int

const (
	// Serve answers as usual.
	Serve Strike = iota
	// Fail answers with status 500, other things equal.
	Fail
	// Hang never answers.
	Hang
)

// Field is a field of the response header.
type Field struct{ Name, Value string }

// Faults are injected defects, with which tests prove that benchkit's checks detect them.
type Faults struct {
	// FailShare is the share of requests answered with status 500, spread evenly.
	FailShare float64
	// HangShare is the share of requests never answered, spread evenly.
	HangShare float64
	// Delay is the time that each request waits, without using the CPU.
	Delay time.Duration
	// Lock is the time for which each request holds a lock that all requests need, without using the CPU.
	Lock time.Duration
	// Queue is the service time of a queue that all requests pass, without using the CPU. Unlike a lock, a request that
	// wakes late delays no other: the capacity is one over the time on any machine.
	Queue time.Duration
	// SlowStart is the time after the opening of the socket in which requests need extra CPU time.
	SlowStart time.Duration
	// OpenAfter is the time that the process waits before it opens its socket.
	OpenAfter time.Duration
	// Background is the share of a CPU that the process uses all the time, also without requests.
	Background float64
	// Linger is the time for which the process uses a CPU after the last request.
	Linger time.Duration
	// OtherBody sends other bytes of the same number.
	OtherBody bool
	// Headers are sent in addition to the usual ones.
	Headers []Field

	given []string
	state *faultState
}

// faultState is the state of faults that requests share.
type faultState struct {
	requests atomic.Uint64
	opened   atomic.Int64 // Unix time in ns
	latest   atomic.Int64 // Unix time of the latest request in ns; only for linger
	mutex    sync.Mutex   // the one of lock
	queue    struct {
		sync.Mutex
		ends time.Time // end of the service of the last request in the queue
	}
}

// Any reports whether there are faults; a server without faults only makes this comparison.
func (f *Faults) Any() bool { return f.state != nil }

// add parses the value of one -inject-fault.
func (f *Faults) add(fault string) error {
	kind, value, _ := strings.Cut(fault, ":")
	if kind != "header" {
		for _, given := range f.given {
			if strings.HasPrefix(given, kind+":") {
				return fmt.Errorf("%s is given more than once", kind)
			}
		}
	}
	var err error
	switch kind {
	case "fail":
		f.FailShare, err = parseShare(value)
	case "hang":
		f.HangShare, err = parseShare(value)
	case "delay":
		f.Delay, err = parseTime(value)
	case "lock":
		f.Lock, err = parseTime(value)
	case "queue":
		f.Queue, err = parseTime(value)
	case "slow-start":
		f.SlowStart, err = parseTime(value)
	case "open-after":
		f.OpenAfter, err = parseTime(value)
	case "background":
		f.Background, err = parseShare(value)
	case "linger":
		f.Linger, err = parseTime(value)
	case "body":
		f.OtherBody = true
		if value != "other" {
			err = errors.New("expected body:other")
		}
	case "header":
		err = f.addHeader(value)
	default:
		err = fmt.Errorf("expected one of %s", faultKinds)
	}
	if err != nil {
		return err
	}
	f.given = append(f.given, fault)
	f.state = &faultState{}
	return nil
}

func (f *Faults) addHeader(value string) error {
	name, content, found := strings.Cut(value, "=")
	if !found || name == "" || strings.Trim(name, tokenCharacters) != "" || strings.ContainsFunc(content, notPrintable) {
		return errors.New("expected header:NAME=VALUE, a field name and printable text")
	}
	f.Headers = append(f.Headers, Field{name, content})
	return nil
}

// tokenCharacters are the characters of a field name (RFC 9110, 5.6.2).
const tokenCharacters = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func notPrintable(r rune) bool { return r < ' ' || r > '~' }

func parseShare(value string) (float64, error) {
	share, err := strconv.ParseFloat(value, 64)
	if err != nil || !(share > 0 && share <= 1) {
		return 0, errors.New("expected a share above 0, up to 1")
	}
	return share, nil
}

func parseTime(value string) (time.Duration, error) {
	duration, err := time.ParseDuration(value)
	if err != nil || duration <= 0 {
		return 0, errors.New("expected a time above 0, like 5ms")
	}
	return duration, nil
}

// Strike applies delays and extra work to this request, and returns how to answer it.
func (f *Faults) Strike() Strike {
	n := f.state.requests.Add(1)
	if f.Delay > 0 {
		time.Sleep(f.Delay)
	}
	if f.Lock > 0 {
		f.state.mutex.Lock()
		time.Sleep(f.Lock)
		f.state.mutex.Unlock()
	}
	if f.Queue > 0 {
		f.passQueue()
	}
	if f.SlowStart > 0 {
		f.warmUp()
	}
	if f.Linger > 0 {
		f.state.latest.Store(time.Now().UnixNano())
	}
	switch {
	case due(n, f.HangShare):
		return Hang
	case due(n, f.FailShare):
		return Fail
	}
	return Serve
}

// passQueue returns at the end of this request's service, which begins after that of all before it.
func (f *Faults) passQueue() {
	queue := &f.state.queue
	queue.Lock()
	if now := time.Now(); queue.ends.Before(now) {
		queue.ends = now
	}
	queue.ends = queue.ends.Add(f.Queue)
	ends := queue.ends
	queue.Unlock()
	time.Sleep(time.Until(ends))
}

// due spreads a share of events evenly: of any n consecutive events, share × n are due, rounded up or down.
func due(n uint64, share float64) bool {
	return math.Floor(float64(n)*share) > math.Floor(float64(n-1)*share)
}

// warmUp uses CPU time like code that is not compiled yet and caches that are still empty.
func (f *Faults) warmUp() {
	began := time.Now()
	cost := f.coldCost(began.Sub(time.Unix(0, f.state.opened.Load())))
	for time.Since(began) < cost {
		addBelow(100)
	}
}

// coldCost returns the CPU time that slow-start adds to a request when the socket has been open for this time.
func (f *Faults) coldCost(open time.Duration) time.Duration {
	return max(0, time.Duration(float64(slowStartCost)*(1-float64(open)/float64(f.SlowStart))))
}

func (f *Faults) waitToOpen() {
	time.Sleep(f.OpenAfter)
}

// begin records the time at which the socket was opened, and starts the work without requests.
func (f *Faults) begin(now time.Time) {
	if f.state == nil {
		return
	}
	f.state.opened.Store(now.UnixNano())
	if f.Background > 0 || f.Linger > 0 {
		go f.workUnasked()
	}
}

func (f *Faults) workUnasked() {
	for {
		began := time.Now()
		cost := f.unaskedCost(began.Sub(time.Unix(0, f.state.latest.Load())))
		for time.Since(began) < cost {
			addBelow(100)
		}
		time.Sleep(tick - time.Since(began))
	}
}

// unaskedCost returns the CPU time that background and linger use in a tick, this time after the latest request.
func (f *Faults) unaskedCost(idle time.Duration) time.Duration {
	if idle >= tick && idle < f.Linger {
		return tick
	}
	return time.Duration(f.Background * float64(tick))
}
