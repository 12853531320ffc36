// Command gnet is an HTTP/1.1 server on panjf2000/gnet: a few event loops over epoll, each serving many connections, and
// no goroutine for any of them. It answers the question that study 4 left open.
package main

import (
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"benchkit/backends/kit"
	"benchkit/backends/kit/http1"
)

func main() { kit.Main("gnet", serve) }

// flushCheck is the interval at which a connection to be closed is checked, until its output is sent.
const flushCheck = time.Millisecond

// writeApart is the size from which a body is written separately instead of being copied after its header.
const writeApart = 16 << 10

// engine handles the events of the event loops.
type engine struct {
	gnet.BuiltinEventEngine
	app     *kit.App
	answers *http1.Answers
	// buffers hold the responses to the requests of one read.
	buffers sync.Pool
}

// session is the state of a connection.
type session struct {
	parser http1.Parser
	// busy is set while a fault delays a request; those after it wait.
	busy bool
	// ending is set when no more requests are read.
	ending bool
	// looking is set while a check of the remaining output is scheduled.
	looking atomic.Bool
	// gone is closed with the connection. It is nil without faults, because nothing waits then.
	gone chan struct{}
}

func serve(app *kit.App) error {
	if err := app.AboutToOpen(); err != nil {
		return err
	}
	address := "tcp://" + app.Listen
	if path, isUnix := strings.CutPrefix(app.Listen, "unix:"); isUnix {
		address = "unix://" + path
	}
	server := &engine{app: app, answers: http1.NewAnswers(app)}
	server.buffers.New = func() any { return new([]byte) }
	err := gnet.Run(server, address,
		gnet.WithNumEventLoop(runtime.GOMAXPROCS(0)),
		gnet.WithReuseAddr(true), // as in Go's net package: connections of an earlier server may be in TIME_WAIT
		gnet.WithLogger(silence{}),
	)
	if err != nil {
		return kit.CannotListen(app.Listen, err)
	}
	return nil
}

// OnBoot prints the address of the socket.
func (e *engine) OnBoot(running gnet.Engine) gnet.Action {
	address, err := addressOf(running)
	if err != nil {
		return gnet.Shutdown
	}
	e.app.Announce(address)
	return gnet.None
}

// addressOf returns the address of gnet's socket, which gnet does not report if the kernel has chosen the port.
func addressOf(running gnet.Engine) (net.Addr, error) {
	fd, err := running.Dup()
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	if unix, isUnix := listener.(*net.UnixListener); isUnix {
		unix.SetUnlinkOnClose(false)
	}
	defer listener.Close()
	return listener.Addr(), nil
}

// OnOpen sets up a connection.
func (e *engine) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	s := &session{}
	if e.app.Faults.Any() {
		s.gone = make(chan struct{})
	}
	c.SetContext(s)
	return nil, gnet.None
}

// OnClose wakes the requests that wait on the connection.
func (e *engine) OnClose(c gnet.Conn, _ error) gnet.Action {
	if s, _ := c.Context().(*session); s != nil && s.gone != nil {
		close(s.gone)
	}
	return gnet.None
}

// OnTraffic answers the complete requests. It is called for new bytes, and by [gnet.Conn.Wake].
func (e *engine) OnTraffic(c gnet.Conn) gnet.Action {
	s := c.Context().(*session)
	if !s.busy && !s.ending {
		if err := e.answerAll(c, s); err != nil {
			return gnet.Close
		}
	}
	if s.ending {
		return s.end(c)
	}
	return gnet.None
}

// answerAll answers all requests of one read with one write.
func (e *engine) answerAll(c gnet.Conn, s *session) error {
	data, err := c.Peek(-1)
	if err != nil {
		return err
	}
	buffer := e.buffers.Get().(*[]byte)
	defer e.buffers.Put(buffer)
	*buffer = (*buffer)[:0]
	taken := 0
	for !s.busy && !s.ending {
		n, event, err := s.parser.Next(data[taken:])
		taken += n
		if err != nil {
			*buffer = http1.AppendRefusal(*buffer, err)
			s.ending = true
			break
		}
		if event == http1.More {
			break
		}
		if event == http1.Continue {
			*buffer = append(*buffer, http1.Interim...)
			continue
		}
		if e.app.Faults.Any() {
			e.answerLater(c, s, s.parser.Request)
			break
		}
		if err := e.answer(c, s.parser.Request, buffer); err != nil {
			return err
		}
		s.ending = s.parser.Request.Close
	}
	if taken > 0 { // because Discard(0) discards everything
		if _, err := c.Discard(taken); err != nil {
			return err
		}
	}
	_, err = c.Write(*buffer)
	return err
}

// answer appends the response to a request to the buffer, and writes a large one to the connection.
func (e *engine) answer(c gnet.Conn, request http1.Request, buffer *[]byte) error {
	status := e.app.Status(nil)
	e.app.Requests.Add(1)
	if request.Head || len(e.app.Body) < writeApart {
		*buffer = e.answers.Append(*buffer, status, request)
		return nil
	}
	_, err := c.Write(append(*buffer, e.answers.Header(status, request)...))
	if err == nil {
		_, err = c.Write(e.app.Body)
	}
	*buffer = (*buffer)[:0]
	return err
}

// answerLater answers a request that a fault may delay, outside the event loop, which serves other connections meanwhile.
// It then has the event loop answer the requests after it.
func (e *engine) answerLater(c gnet.Conn, s *session, request http1.Request) {
	s.busy = true
	go func() {
		status := e.app.Status(s.gone)
		if status == 0 {
			return
		}
		// An error means that the connection is closed, so there is nothing left to do.
		_ = c.AsyncWrite(e.answers.Append(nil, status, request), func(c gnet.Conn, err error) error {
			if err != nil {
				return nil
			}
			e.app.Requests.Add(1)
			s.busy, s.ending = false, request.Close
			return c.Wake(nil)
		})
	}()
}

// end closes a connection when its output is sent; further input is discarded.
func (s *session) end(c gnet.Conn) gnet.Action {
	if c.OutboundBuffered() == 0 {
		return gnet.Close
	}
	_, _ = c.Next(-1) // all available bytes, so this cannot fail
	if s.looking.CompareAndSwap(false, true) {
		time.AfterFunc(flushCheck, func() {
			s.looking.Store(false)
			_ = c.Wake(nil) // fails if the connection is closed
		})
	}
	return gnet.None
}

// silence is a logger that prints nothing.
type silence struct{}

func (silence) Debugf(string, ...any) {}
func (silence) Infof(string, ...any)  {}
func (silence) Warnf(string, ...any)  {}
func (silence) Errorf(string, ...any) {}
func (silence) Fatalf(string, ...any) {}
