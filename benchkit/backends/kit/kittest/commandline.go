package kittest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// loopback is an address whose port the kernel chooses.
const loopback = "127.0.0.1:0"

// CommandLine tests the behaviour that all backends share for every protocol: flags, sockets, signals.
func CommandLine(t *testing.T) {
	run(t, "wrong flags", wrongFlags)
	run(t, "address taken", addressTaken)
	run(t, "unix socket", unixSocket)
	run(t, "ends on a signal", endsOnSignal)
	run(t, "opens late on request", opensLate)
}

func wrongFlags(t *testing.T) {
	for _, test := range []struct {
		flag string // the flag that the message must name
		args []string
	}{
		{"-listen", nil},
		{"-listen", []string{"-listen", "8080"}},
		{"-listen", []string{"-listen", "127.0.0.1:http"}},
		{"-listen", []string{"-listen", "127.0.0.1:65536"}},
		{"-listen", []string{"-listen", "127.0.0.1:"}},
		{"-listen", []string{"-listen", "unix:relative"}},
		{"-listen", []string{"-listen", "unix:/" + strings.Repeat("x", 200)}},
		{"-admin", []string{"-listen", loopback, "-admin", "nowhere"}},
		{"-body-size", []string{"-listen", loopback, "-body-size", "-1"}},
		{"-body-size", []string{"-listen", loopback, "-body-size", "12k"}},
		{"-body-size", []string{"-listen", loopback, "-body-size", "1073741825"}},
		{"-work", []string{"-listen", loopback, "-work", "some"}},
		{"-work", []string{"-listen", loopback, "-work", "loop"}},
		{"-work", []string{"-listen", loopback, "-work", "loop:-1"}},
		{"-work", []string{"-listen", loopback, "-work", "loop:100000001"}},
		{"-inject-fault", []string{"-listen", loopback, "-inject-fault", "luck"}},
		{"-inject-fault", []string{"-listen", loopback, "-inject-fault", "fail:0"}},
		{"-inject-fault", []string{"-listen", loopback, "-inject-fault", "fail:1.1"}},
		{"-inject-fault", []string{"-listen", loopback, "-inject-fault", "fail:NaN"}},
		{"-inject-fault", []string{"-listen", loopback, "-inject-fault", "delay:-5ms"}},
		{"-inject-fault", []string{"-listen", loopback, "-inject-fault", "delay:5"}},
		{"-inject-fault", []string{"-listen", loopback, "-inject-fault", "body:none"}},
		{"-inject-fault", []string{"-listen", loopback, "-inject-fault", "header:X-Extra"}},
		{"-inject-fault", []string{"-listen", loopback, "-inject-fault", "header:X Extra=1"}},
		{"-inject-fault", []string{"-listen", loopback, "-inject-fault", "header:X-Extra=1\r\nY: 2"}},
		{"-inject-fault", []string{"-listen", loopback, "-inject-fault", "delay:1ms", "-inject-fault", "delay:2ms"}},
		{"-port", []string{"-listen", loopback, "-port", "80"}},
		{"extra", []string{"-listen", loopback, "extra"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			code, stderr := Refused(t, test.args...)
			if code != 2 || !strings.Contains(stderr, test.flag) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d, stderr %q; want 2 and one line naming %s", code, stderr, test.flag)
			}
		})
	}
}

func addressTaken(t *testing.T) {
	taken := Start(t, "-listen", loopback)
	for _, args := range [][]string{
		{"-listen", taken.Address},
		{"-listen", loopback, "-admin", taken.Address},
	} {
		code, stderr := Refused(t, args...)
		want := fmt.Sprintf("cannot listen on %s: address already in use\n", taken.Address)
		if code != 1 || !strings.HasSuffix(stderr, want) {
			t.Errorf("%v: exit code %d, stderr %q; want 1 and %q", args, code, stderr, want)
		}
	}
}

func unixSocket(t *testing.T) {
	folder := shortFolder(t)
	path := filepath.Join(folder, "s")
	address := "unix:" + path

	first := Start(t, "-listen", address)
	if first.Address != address {
		t.Errorf("listening on %q, want %q", first.Address, address)
	}
	if code, stderr := Refused(t, "-listen", address); code != 1 || !strings.Contains(stderr, "address already in use") {
		t.Errorf("a second server on a live socket: exit code %d, stderr %q", code, stderr)
	}
	Dial(t, address) // the live socket still works

	first.End(t, syscall.SIGKILL)
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("a killed server leaves its socket behind: %v", err)
	}
	second := Start(t, "-listen", address)
	Dial(t, address)
	second.End(t, syscall.SIGTERM)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("a server that ended left its socket: %v", err)
	}

	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stderr := Refused(t, "-listen", address)
	content, err := os.ReadFile(path)
	if code != 1 || !strings.Contains(stderr, "is not a socket") || err != nil || string(content) != "precious" {
		t.Errorf("a file at the path of the socket: exit code %d, stderr %q, file %q, %v", code, stderr, content, err)
	}

	code, stderr = Refused(t, "-listen", "unix:"+filepath.Join(folder, "missing", "s"))
	if code != 1 || !strings.Contains(stderr, "no such file or directory") {
		t.Errorf("a socket in a folder that is missing: exit code %d, stderr %q", code, stderr)
	}
}

// shortFolder returns a folder with a short path: that of t.TempDir may be too long for a socket.
func shortFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "kit")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// atOnce is less than the 5 s after which Node closes an idle connection by itself, and long for a busy machine.
const atOnce = 4 * time.Second

func endsOnSignal(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		server := Start(t, "-listen", loopback)
		Dial(t, server.Address) // the server must not wait for a connection that stays open
		code, stderr, took := server.End(t, signal)
		if code != 0 || took > atOnce || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d after %v, stderr %q; want 0, at once, one line", signal, code, took, stderr)
		}
		if connection, err := net.Dial("tcp", server.Address); err == nil {
			connection.Close()
			t.Errorf("%v: the port is still open", signal)
		}
	}
}

func opensLate(t *testing.T) {
	began := time.Now()
	Start(t, "-listen", loopback, "-inject-fault", "open-after:300ms")
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("open after %v", took)
	}
}
