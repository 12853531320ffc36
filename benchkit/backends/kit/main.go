// Package kit is what benchkit's Go backends share: one command line, one way to listen, to count, to be watched and
// to end, and the response bytes that make cells comparable.
//
// A backend is a main package of its own that hands its serving loop to [Main]:
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
// It needs the standard library only and compiles with Go 1.22, because the Go release is a factor that scenarios sweep.
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
	exitFailed = 1 // could not serve: the port is taken, the socket cannot be made
	exitUsage  = 2 // a flag is wrong
)

// App is one server process: its checked options, its response, its request counter, its open sockets.
type App struct {
	Options

	// Name is the backend's, as it stands in messages and in /debug/vars.
	Name string
	// Body is what every request is answered with.
	Body []byte
	// Requests counts what was answered.
	Requests *Counter

	stderr io.Writer
	began  time.Time

	mu      sync.Mutex
	sockets []io.Closer
}

// Main runs a backend and does not return: serve is called with the parsed command line, and the process ends with 0 on
// SIGTERM or SIGINT, 1 when serve returns (it should not), 2 on a wrong flag. A backend that takes more flags than all do
// defines them in own.
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
		// Linking the profiler switches heap sampling on for everybody; without -admin nobody can read it.
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

	// In-flight requests and idle connections are not waited for: the load is gone when a benchmark ends its server.
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

// Open opens the socket named by -listen and says so on stderr; connections queue in the kernel from here on.
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

// AboutToOpen is for backends whose library opens the socket by itself, instead of [App.Open]: it waits as long as the
// faults say and makes room for a unix socket, which is taken away at the end. [App.Announce] follows.
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

// AtEnd has something done when a signal ends the process, after the sockets that were opened before are closed.
func (a *App) AtEnd(do func()) { a.closeAtEnd(closer(do)) }

type closer func()

// Close does it.
func (c closer) Close() error {
	c()
	return nil
}

// Announce prints the one line that a backend prints, with the address as -listen takes it. Backends whose library opens
// the socket by itself call it; [App.Open] already does.
func (a *App) Announce(address net.Addr) {
	a.Faults.begin(time.Now())
	fmt.Fprintf(a.stderr, "listening on %s\n", written(address))
}

func (a *App) closeAtEnd(socket io.Closer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sockets = append(a.sockets, socket)
}

// close closes the listening sockets, which takes unix sockets out of the file system. Errors have no reader any more.
func (a *App) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, socket := range a.sockets {
		_ = socket.Close()
	}
}
