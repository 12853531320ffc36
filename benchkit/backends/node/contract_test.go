// Package node runs the tests of the Go backends on the Node server; this file is its only Go code.
package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"benchkit/backends/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Main(m, main) }

func TestCommandLine(t *testing.T) { kittest.CommandLine(t) }

func TestHTTP(t *testing.T) { kittest.HTTP(t) }

// main replaces this process by the server, with one worker, because the tests count single requests.
func main() {
	node, err := exec.LookPath("node")
	if err == nil {
		var program string
		if program, err = filepath.Abs("main.js"); err == nil {
			err = syscall.Exec(node, append([]string{node, program, "-workers", "1"}, os.Args[1:]...), os.Environ())
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
