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
// (net.core.somaxconn): Go asks for that much. A unix socket that nobody answers on is left over from a server that was
// killed and is replaced; a live one, or a file of another kind, is an error.
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

// CannotListen is the error of a socket that cannot be opened, with the innermost reason.
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
		return errors.New("the file is there and is no socket")
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

// cause is the innermost reason: net's own message names operation, address and system call beside it.
func cause(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// written is an address as -listen takes it.
func written(address net.Addr) string {
	if address.Network() == "unix" {
		return "unix:" + address.String()
	}
	return address.String()
}
