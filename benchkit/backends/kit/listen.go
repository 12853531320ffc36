package kit

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
)

// Listen opens a listening socket on a TCP address or on unix:/path. The accept queue is as long as the kernel allows
// (net.core.somaxconn): Go requests that length. A unix socket that refuses connections is left over from a killed server
// and is replaced; a live one, or a file of another kind, is an error.
func Listen(address string) (net.Listener, error) {
	network, name := "tcp", address
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		network, name = "unix", path
	}
	listener, err := net.Listen(network, name)
	if network == "unix" && errors.Is(err, syscall.EADDRINUSE) {
		if err := removeStale(name); err != nil {
			return nil, CannotListen(address, err)
		}
		listener, err = net.Listen(network, name)
	}
	if err != nil {
		return nil, CannotListen(address, err)
	}
	return listener, nil
}

// CannotListen returns the error for a socket that cannot be opened, with the innermost reason.
func CannotListen(address string, err error) error {
	return fmt.Errorf("cannot listen on %s: %w", address, cause(err))
}

// removeStale removes a unix socket that refuses connections.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return cause(err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("the file exists and is not a socket")
	}
	connection, err := net.Dial("unix", path)
	if err == nil {
		_ = connection.Close()
		return syscall.EADDRINUSE
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return cause(err)
	}
	return os.Remove(path)
}

// cause returns the innermost reason, without the operation, address and system call that net's errors add.
func cause(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// formatAddress returns an address in the form that -listen accepts.
func formatAddress(address net.Addr) string {
	if address.Network() == "unix" {
		return "unix:" + address.String()
	}
	return address.String()
}
