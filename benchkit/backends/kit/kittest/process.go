// Package kittest has the tests that every Go backend must pass. A backend runs them on its own executable:
//
//	func TestMain(m *testing.M) { kittest.Main(m, main) }
//
//	func TestCommandLine(t *testing.T) { kittest.CommandLine(t) }
//
//	func TestAdmin(t *testing.T) { kittest.Admin(t) }
//
//	func TestHTTP(t *testing.T) { kittest.HTTP(t) }
//
// There are no mocks: servers are processes, requests are bytes on sockets.
package kittest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asServer is the environment variable that makes the test executable the server under test.
const asServer = "KITTEST_AS_SERVER"

// Deadline is the time for a server to start, answer or end before a test fails: on a busy machine, many start at once.
const Deadline = time.Minute

// Main runs the tests, or the backend's main function if a test has started the executable as a server.
func Main(m *testing.M, main func()) {
	if os.Getenv(asServer) != "" {
		main() // does not return
	}
	os.Exit(m.Run())
}

// Server is a running backend.
type Server struct {
	// Address is the address that it printed.
	Address string
	// Admin is the address of its admin listener that it printed, or empty.
	Admin string
	// Temporary is its folder for temporary files, which goes with the test: a killed server leaves its own.
	Temporary string

	command *exec.Cmd
	stderr  *os.File
	read    bytes.Buffer
	lines   *bufio.Reader
	ended   bool
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(executable, args...)
	// The race detector's runtime waits for a second before it lets a process end.
	command.Env = append(os.Environ(), asServer+"=1", "GORACE=atexit_sleep_ms=0")
	return command
}

// Start starts the backend, waits until it prints its address, and stops it when the test ends.
func Start(t *testing.T, args ...string) *Server {
	t.Helper()
	stderr, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	server := &Server{command: command(t, args...), stderr: stderr, Temporary: t.TempDir()}
	server.command.Env = append(server.command.Env, "TMPDIR="+server.Temporary)
	server.command.Stderr = theirs
	if err := server.command.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(func() {
		server.end()
		stderr.Close()
	})
	server.lines = bufio.NewReader(io.TeeReader(stderr, &server.read))
	if err := stderr.SetReadDeadline(time.Now().Add(Deadline)); err != nil {
		t.Fatal(err)
	}
	for server.Address == "" {
		line, err := server.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%v does not listen: %v; it printed %q", args, err, server.read.String())
		}
		line = strings.TrimSuffix(line, "\n")
		if admin, found := strings.CutPrefix(line, "admin on "); found {
			server.Admin = admin
		}
		if address, found := strings.CutPrefix(line, "listening on "); found {
			server.Address = address
		}
	}
	return server
}

// Pid returns the server's process id.
func (s *Server) Pid() int { return s.command.Process.Pid }

// End sends a signal and returns the exit code, the server's stderr, and the time it took to end.
func (s *Server) End(t *testing.T, signal syscall.Signal) (int, string, time.Duration) {
	t.Helper()
	if err := s.stderr.SetReadDeadline(time.Now().Add(Deadline)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := s.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, s.lines); err != nil { // reads to the end of the pipe, when the process has ended
		t.Fatalf("the server does not end on %v: %v", signal, err)
	}
	code := s.wait()
	return code, s.read.String(), time.Since(began)
}

// wait reaps the process and returns its exit code, -1 for a killed one.
func (s *Server) wait() int {
	s.ended = true
	err := s.command.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return -1
	}
	return s.command.ProcessState.ExitCode()
}

func (s *Server) end() {
	if !s.ended {
		_ = s.command.Process.Kill()
		s.wait()
	}
}

// Refused runs the backend with arguments that it must reject, and returns its exit code and stderr.
func Refused(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var stderr bytes.Buffer
	command := command(t, args...)
	command.Stderr = &stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(Deadline, func() { _ = command.Process.Kill() })
	defer late.Stop()
	err := command.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), stderr.String()
}
