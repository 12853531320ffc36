// Package kit is the common part of benchkit's Go backends: the command line, listening, counting, the admin listener,
// shutdown, and the response bytes, which must be the same for a fair comparison.
//
// A backend is a main package of its own that passes its serving loop to [Main]:
//
//	func main() { kit.Main("nethttp", serve) }
//
//	func serve(app *kit.App) error {
//		listener, err := app.Open()
//		if err != nil {
//			return err
//		}
//		return (&http.Server{Handler: app}).Serve(listener)
//	}
//
// It uses the standard library only and compiles with Go 1.22, because scenarios compare Go releases.
package kit

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Exit codes of every backend.
const (
	exitDone   = 0 // ended by a signal, which is how benchmarks end servers
	exitFailed = 1 // could not serve: the port is in use, the socket cannot be created
	exitUsage  = 2 // a flag is invalid
)

// App is one server process: its options, its response, its request counter and its open sockets.
type App struct {
	Options

	// Name is the name of the backend, for messages and /debug/vars.
	Name string
	// Body is the body of every response.
	Body []byte
	// HasNoConnectionField is true of HTTP/3, which forbids the field Connection (RFC 9114, 4.2). In HTTP/2 net/http drops it.
	HasNoConnectionField bool
	// Requests counts the responses.
	Requests *Counter

	stderr io.Writer
	began  time.Time

	mu      sync.Mutex
	sockets []io.Closer
}

// Main runs a backend and does not return. It calls serve with the parsed command line. The process exits with 0 on
// SIGTERM or SIGINT, 1 when serve returns (it should not), 2 on an invalid flag. A backend with flags of its own defines
// them in own.
func Main(name string, serve func(*App) error, own ...func(*flag.FlagSet)) {
	os.Exit(run(name, os.Args[1:], serve, own))
}

func run(name string, args []string, serve func(*App) error, own []func(*flag.FlagSet)) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)

	options, err := parseOptions(name, args, own...)
	if errors.Is(err, flag.ErrHelp) {
		usage(name, os.Stdout, own)
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, err)
		return exitUsage
	}
	if options.Admin == "" {
		// Linking the profiler enables heap sampling, which nothing can read without -admin.
		runtime.MemProfileRate = 0
	}
	app := newApp(name, options, os.Stderr)
	failed := make(chan error, 1)
	go func() {
		if err := app.openAdmin(failed); err != nil {
			failed <- err
			return
		}
		if err := serve(app); err != nil {
			failed <- err
			return
		}
		failed <- errors.New("stopped serving")
	}()

	// It does not wait for requests in flight and idle connections: the load has ended when a benchmark stops its server.
	select {
	case <-signals:
		app.close()
		return exitDone
	case err := <-failed:
		app.close()
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, err)
		return exitFailed
	}
}

func newApp(name string, options Options, stderr io.Writer) *App {
	body := Body(options.BodySize)
	if options.Faults.OtherBody {
		body = otherBody(options.BodySize)
	}
	return &App{
		Options:  options,
		Name:     name,
		Body:     body,
		Requests: NewCounter(),
		stderr:   stderr,
		began:    time.Now(),
	}
}

// Open opens the socket named by -listen and prints its address on stderr; from now on the kernel queues connections.
func (a *App) Open() (net.Listener, error) {
	a.Faults.waitToOpen()
	listener, err := Listen(a.Listen)
	if err != nil {
		return nil, err
	}
	a.closeAtEnd(listener)
	a.Announce(listener.Addr())
	return listener, nil
}

// OpenUDP opens the UDP socket named by -listen, and prints its address as [App.Open] does.
func (a *App) OpenUDP() (net.PacketConn, error) {
	a.Faults.waitToOpen()
	socket, err := net.ListenPacket("udp", a.Listen)
	if err != nil {
		return nil, CannotListen(a.Listen, err)
	}
	a.closeAtEnd(socket)
	a.Announce(socket.LocalAddr())
	return socket, nil
}

// AboutToOpen replaces [App.Open] in backends whose library opens the socket: it waits for the fault open-after, removes a
// stale unix socket, and has the new one removed at exit. The backend then calls [App.Announce].
func (a *App) AboutToOpen() error {
	a.Faults.waitToOpen()
	path, isUnix := strings.CutPrefix(a.Listen, "unix:")
	if !isUnix {
		return nil
	}
	if err := removeStale(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return CannotListen(a.Listen, err)
	}
	a.AtEnd(func() { _ = os.Remove(path) })
	return nil
}

// AtEnd registers a function to call when a signal ends the process, after the sockets opened before are closed.
func (a *App) AtEnd(do func()) { a.closeAtEnd(closer(do)) }

type closer func()

// Close calls the function.
func (c closer) Close() error {
	c()
	return nil
}

// Announce prints the only line that a backend prints, with the address in the form that -listen accepts. [App.Open] calls
// it; backends whose library opens the socket call it themselves.
func (a *App) Announce(address net.Addr) {
	a.Faults.begin(time.Now())
	fmt.Fprintf(a.stderr, "listening on %s\n", formatAddress(address))
}

func (a *App) closeAtEnd(socket io.Closer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sockets = append(a.sockets, socket)
}

// close closes the listening sockets, which also removes unix sockets from the file system. The process ends, so errors
// are ignored.
func (a *App) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, socket := range a.sockets {
		_ = socket.Close()
	}
}
