// Command server answers HTTP requests after a wait that its arguments determine, so that its limit is arithmetic.
//
//	server --port PORT MODE [NUMBER…]
//
//	cpu TURNS               a loop of so many turns
//	sleep MS                a wait of MS milliseconds, any number at a time
//	pool K MS, lock MS      one of K slots, or a lock, held for MS milliseconds
//	pool-cpu K MS TURNS     a slot held for MS milliseconds, then a loop
//	workers MS1 MS2         requests alternate between two workers, each of which serves one at a time
//	tail MS                 every hundredth answer after MS milliseconds, the others at once
//	refuse RATE             a token bucket of ten, filled so many times a second; without a token a request gets a 429
//	delay RATE              so many requests a second are answered; others wait for their turn
//	database K MS DBPORT    one of K connections to PostgreSQL, which sleeps for MS milliseconds
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// handler answers one request: its status, once it has waited.
type handler func() (status int)

// modes make handlers of their numbers.
var modes = map[string]func(n []float64) handler{
	"cpu":      func(n []float64) handler { return work(0, n[0]) },
	"sleep":    func(n []float64) handler { return work(n[0], 0) },
	"pool":     func(n []float64) handler { return pool(n[0], n[1], 0) },
	"lock":     func(n []float64) handler { return pool(1, n[0], 0) },
	"pool-cpu": func(n []float64) handler { return pool(n[0], n[1], n[2]) },
	"workers":  func(n []float64) handler { return alternate(2, pool(1, n[0], 0), pool(1, n[1], 0)) },
	"tail":     func(n []float64) handler { return alternate(100, work(n[0], 0), work(0, 0)) },
	"refuse":   func(n []float64) handler { return bucket(n[0], 10) },
	"delay":    func(n []float64) handler { return bucket(n[0], 0) },
	"database": func(n []float64) handler { return database(int(n[0]), n[1], int(n[2])) },
}

func main() {
	port := flag.Int("port", 8080, "`port` to listen on")
	flag.Parse()
	mode, isKnown := modes[flag.Arg(0)]
	if !isKnown {
		log.Fatalf("unknown mode: %q", flag.Args())
	}
	numbers := make([]float64, flag.NArg()-1)
	for i := range numbers {
		var err error
		numbers[i], err = strconv.ParseFloat(flag.Arg(1+i), 64)
		check(err)
	}
	handle := mode(numbers)
	check(http.ListenAndServe(fmt.Sprintf(":%d", *port), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(handle())
		_, _ = io.WriteString(w, "Hello World\n") // an error means that the client has closed the connection
	})))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func milliseconds(number float64) time.Duration {
	return time.Duration(number * float64(time.Millisecond))
}

// alternate gives the first of so many requests to one handler, and the others to another.
func alternate(period uint64, first, others handler) handler {
	var requests atomic.Uint64
	return func() int {
		if requests.Add(1)%period == 1 {
			return first()
		}
		return others()
	}
}

// work waits and computes for each request, any number at a time.
func work(wait, turns float64) handler {
	return func() int {
		sleep(milliseconds(wait))
		loop(int(turns))
		return http.StatusOK
	}
}

// pool serves so many requests at a time; the loop that follows needs no slot. A request that had to wait gets its slot from
// the time at which it was due to be free, so that late wake-ups do not add up: under load the rate is exact.
func pool(slots, wait, turns float64) handler {
	free := make(chan time.Time, int(slots))
	for range cap(free) {
		free <- time.Time{}
	}
	return func() int {
		start := time.Now()
		select {
		case <-free:
		default:
			start = <-free
		}
		end := start.Add(milliseconds(wait))
		sleep(time.Until(end))
		free <- end
		loop(int(turns))
		return http.StatusOK
	}
}

// bucket lets one request pass each period, and as many more as it has saved tokens. Without a token a request is refused; a
// bucket that saves none lets requests wait.
func bucket(rate float64, tokens int) handler {
	var lock sync.Mutex
	var next time.Duration // when the bucket has the token of the next request
	began, period := time.Now(), milliseconds(1e3/rate)
	return func() int {
		now := time.Since(began)
		lock.Lock()
		due := max(now-time.Duration(tokens)*period, next)
		isRefused := tokens > 0 && due > now
		if !isRefused {
			next = due + period
		}
		lock.Unlock()
		if isRefused {
			return http.StatusTooManyRequests
		}
		sleep(due - now)
		return http.StatusOK
	}
}

// database asks PostgreSQL in its own protocol: a start-up message without a password, and simple queries.
func database(size int, wait float64, port int) handler {
	connections := make(chan net.Conn, size)
	for range size {
		connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		check(err)
		startup := append(binary.BigEndian.AppendUint32(nil, 3<<16), "user\x00postgres\x00database\x00postgres\x00\x00"...)
		ask(connection, nil, startup)
		connections <- connection
	}
	query := fmt.Appendf(nil, "SELECT pg_sleep(%g)\x00", wait/1e3)
	return func() int {
		connection := <-connections
		defer func() { connections <- connection }()
		ask(connection, []byte("Q"), query)
		return http.StatusOK
	}
}

// ask sends a message and reads answers until PostgreSQL is ready for the next one.
func ask(connection net.Conn, kind, payload []byte) {
	message := binary.BigEndian.AppendUint32(kind, uint32(len(payload)+4))
	_, err := connection.Write(append(message, payload...))
	check(err)
	for answered := byte(0); answered != 'Z'; {
		var head [5]byte
		_, err := io.ReadFull(connection, head[:])
		check(err)
		answer := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		_, err = io.ReadFull(connection, answer)
		check(err)
		if answered = head[0]; answered == 'E' {
			log.Fatalf("PostgreSQL: %q", answer)
		}
	}
}

func loop(turns int) {
	sum := 0
	for i := range turns {
		sum += i * sum
	}
	sink.Store(int64(sum))
}

// sink keeps the compiler from removing loops.
var sink atomic.Int64

// timers are files that become readable when their time is over.
var timers = sync.Pool{New: func() any {
	const clockMonotonic = 1
	number, _, failure := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if failure != 0 {
		log.Fatal(failure)
	}
	return os.NewFile(number, "timerfd")
}}

// sleep waits to some 0.05 ms. time.Sleep may take a millisecond more: the runtime waits in epoll_wait, which counts them.
func sleep(length time.Duration) {
	if length <= 0 {
		return
	}
	timer := timers.Get().(*os.File)
	defer timers.Put(timer)
	connection, err := timer.SyscallConn()
	check(err)
	once := [2]syscall.Timespec{1: syscall.NsecToTimespec(length.Nanoseconds())}
	isSet := false
	check(connection.Read(func(number uintptr) bool {
		if isSet {
			return true // setting the timer again resets it: it need not be read
		}
		isSet = true
		_, _, failure := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, number, 0, uintptr(unsafe.Pointer(&once)), 0, 0, 0)
		return failure != 0 // then the answer comes at once, and tests see it
	}))
}
