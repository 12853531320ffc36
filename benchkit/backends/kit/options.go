package kit

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// MaxBodySize is the largest -body-size in bytes; the body is kept in memory.
const MaxBodySize = 1 << 30

// Options are the options that every backend has.
type Options struct {
	// Listen is a TCP address (127.0.0.1:8080) or a unix socket (unix:/path).
	Listen string
	// BodySize is the length of the body in bytes.
	BodySize int
	// Work is the work of each request.
	Work Work
	// Admin is the address of a second listener with /debug/vars and /debug/pprof/, or empty.
	Admin string
	// Faults are the injected faults; by default there are none.
	Faults Faults
}

// parseOptions parses the command line. An error is one line that names the flag.
func parseOptions(name string, args []string, own ...func(*flag.FlagSet)) (Options, error) {
	options := Options{BodySize: len(Hello)}
	flags := flagSet(name, &options, own)
	flags.SetOutput(io.Discard) // the flag package would print the error and the whole usage
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	if flags.NArg() > 0 {
		return Options{}, fmt.Errorf("unexpected argument %q: all options are flags", flags.Arg(0))
	}
	if options.Listen == "" {
		return Options{}, errors.New("flag -listen is missing: a TCP address (127.0.0.1:8080) or unix:/path")
	}
	return options, nil
}

func usage(name string, out io.Writer, own []func(*flag.FlagSet)) {
	flags := flagSet(name, &Options{}, own)
	flags.SetOutput(out)
	fmt.Fprintf(out, "Usage of %s:\n", name)
	flags.PrintDefaults()
}

func flagSet(name string, options *Options, own []func(*flag.FlagSet)) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.Func("listen", "`address` to serve on: TCP (127.0.0.1:8080) or unix:/path", func(value string) error {
		options.Listen = value
		return checkAddress(value)
	})
	flags.Func("admin", "`address` to serve /debug/vars and /debug/pprof/ on; default: none", func(value string) error {
		options.Admin = value
		return checkAddress(value)
	})
	flags.Func("body-size", "`bytes` of body; default: 12", func(value string) error {
		size, err := strconv.Atoi(value)
		if err != nil || size < 0 || size > MaxBodySize {
			return fmt.Errorf("expected bytes from 0 to %d", MaxBodySize)
		}
		options.BodySize = size
		return nil
	})
	flags.Func("work", "`work` for each request: none, loop:N to add the numbers below N, or block:Nms to wait in the handler", func(value string) error {
		work, err := parseWork(value)
		options.Work = work
		return err
	})
	flags.Func("inject-fault", "for tests: a `fault` to inject ("+faultKinds+"); repeatable", options.Faults.add)
	for _, define := range own {
		define(flags)
	}
	return flags
}

// checkAddress rejects addresses on which net.Listen would fail with a message that names no flag.
func checkAddress(address string) error {
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		longest := len(syscall.RawSockaddrUnix{}.Path) - 1
		if !strings.HasPrefix(path, "/") || len(path) > longest {
			return fmt.Errorf("expected unix: and an absolute path of at most %d bytes", longest)
		}
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("expected host:port or unix:/path")
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("expected a port from 0 to 65535, found %q", port)
	} else if strconv.FormatUint(number, 10) != port {
		return fmt.Errorf("expected a port without leading zeros, found %q", port)
	}
	return nil
}
