// Command gnet is an HTTP/1.1 server on panjf2000/gnet: a few event loops over epoll, each serving many connections, and
// no goroutine for any of them. It is to answer the question that study 4 left open.
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

// flushCheck is how often a connection that is to be closed is looked at, until what it still has to send is sent.
const flushCheck = time.Millisecond

// writeApart is the size of the smallest body that is written by itself rather than copied behind its header.
const writeApart = 16 << 10

// engine is what the event loops call.
type engine struct {
	gnet.BuiltinEventEngine
	app     *kit.App
	answers *http1.Answers
	// buffers hold the answers to the requests that one read brought.
	buffers sync.Pool
}

// session is a connection.
type session struct {
	parser http1.Parser
	// busy is set while a fault keeps a request from being answered: those after it have to wait.
	busy bool
	// ending is set when nothing more is read.
	ending bool
	// looking is set while a look at what is still to be sent is due.
	looking atomic.Bool
	// gone is closed with the connection. It is nil where there are no faults: nothing waits then.
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
		gnet.WithReuseAddr(true), // as Go's own net has it: connections of the server before may be in TIME_WAIT
		gnet.WithLogger(silence{}),
	)
	if err != nil {
		return kit.CannotListen(app.Listen, err)
	}
	return nil
}

// OnBoot says where the socket is open.
func (e *engine) OnBoot(running gnet.Engine) gnet.Action {
	address, err := addressOf(running)
	if err != nil {
		return gnet.Shutdown
	}
	e.app.Announce(address)
	return gnet.None
}

// addressOf is where gnet listens, which it does not tell when the kernel has chosen the port.
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

// OnOpen begins a connection.
func (e *engine) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	s := &session{}
	if e.app.Faults.Any() {
		s.gone = make(chan struct{})
	}
	c.SetContext(s)
	return nil, gnet.None
}

// OnClose ends what waits for the connection.
func (e *engine) OnClose(c gnet.Conn, _ error) gnet.Action {
	if s, _ := c.Context().(*session); s != nil && s.gone != nil {
		close(s.gone)
	}
	return gnet.None
}

// OnTraffic answers the requests that have arrived whole. It is called with new bytes, and by [gnet.Conn.Wake].
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

// answerAll answers requests together that have arrived together.
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
	if taken > 0 { // Discard(0) would discard all
		if _, err := c.Discard(taken); err != nil {
			return err
		}
	}
	_, err = c.Write(*buffer)
	return err
}

// answer puts the answer to a request into the buffer, and a large one on its way.
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

// answerLater answers a request that a fault may keep waiting, beside the event loop, which goes on with other
// connections. The requests after it are answered then.
func (e *engine) answerLater(c gnet.Conn, s *session, request http1.Request) {
	s.busy = true
	go func() {
		status := e.app.Status(s.gone)
		if status == 0 {
			return
		}
		// An error says that the connection has gone, for whose sake alone there would be something to do.
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

// end closes a connection when all it has to send is sent; what else it brings is thrown away.
func (s *session) end(c gnet.Conn) gnet.Action {
	if c.OutboundBuffered() == 0 {
		return gnet.Close
	}
	_, _ = c.Next(-1) // all that there is, which cannot be too much to ask for
	if s.looking.CompareAndSwap(false, true) {
		time.AfterFunc(flushCheck, func() {
			s.looking.Store(false)
			_ = c.Wake(nil) // fails where the connection has gone
		})
	}
	return gnet.None
}

// silence is a logger for what a benchmark's server does not print.
type silence struct{}

func (silence) Debugf(string, ...any) {}
func (silence) Infof(string, ...any)  {}
func (silence) Warnf(string, ...any)  {}
func (silence) Errorf(string, ...any) {}
func (silence) Fatalf(string, ...any) {}
