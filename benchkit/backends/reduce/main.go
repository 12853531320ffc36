// Command reduce reads files of the rows that a load tool wrote for each request, after the load, and writes a small file for
// each: an HdrHistogram of the response times, and exact counts.
//
//	reduce -tool h2load slice1 slice2 …
//
// writes slice1.json, and slice1.txt with what the tool printed beside its rows.
//
// It counts and quotes the rows that it cannot parse, so no row is lost silently. Its memory does not grow with the number of
// rows, and only kilobytes of them leave the host.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Exit codes, the same as those of the backends.
const (
	exitDone   = 0 // the files are written, even if rows could not be parsed
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	runtime.GOMAXPROCS(1) // there is a process for each load generator of the host
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// options are the options of the command line.
type options struct {
	tool tool
	// interval is the time between two requests of a constant rate; 0: there is none.
	interval time.Duration
	files    []string
}

func run(args []string, stdout, stderr io.Writer) int {
	options, err := parseOptions(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "reduce: %s\n", err)
		return exitUsage
	}
	if err := options.reduceFiles(); err != nil {
		fmt.Fprintf(stderr, "reduce: %s\n", err)
		return exitFailed
	}
	return exitDone
}

// parseOptions parses the command line. An error is one line that names the flag.
func parseOptions(args []string, stdout io.Writer) (options, error) {
	var options options
	flags := flag.NewFlagSet("reduce", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the flag package would print the error and the whole usage
	flags.Func("tool", "the `tool` that prints the rows: "+strings.Join(toolNames(), ", "), func(name string) error {
		found, known := tools[name]
		if !known {
			return fmt.Errorf("expected one of %s", strings.Join(toolNames(), ", "))
		}
		options.tool = found
		return nil
	})
	flags.DurationVar(&options.interval, "interval", 0, "`time` between two requests of vegeta: times count from when a "+
		"request was due")
	err := flags.Parse(args)
	options.files = flags.Args()
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(stdout, "Usage of reduce: options, and the files with rows")
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return options, err
	case err != nil:
		return options, err
	case options.tool.name == "":
		return options, errors.New("flag -tool is missing")
	case len(options.files) == 0:
		return options, errors.New("no file with rows was given")
	case options.interval < 0 || options.interval > 0 && !options.tool.numbered:
		return options, errors.New("flag -interval is for tools that number their requests: vegeta")
	}
	return options, nil
}

// reduceFiles reduces the rows of each file, until the first that fails.
func (o options) reduceFiles() error {
	for _, path := range o.files {
		if err := o.reduceFile(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// reduceFile reads the rows of a file and writes the files beside it. If reading fails, they have the rows read until then.
func (o options) reduceFile(path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	tally := newTally(o.interval.Nanoseconds())
	ended, err := o.tool.read(in, tally)
	return errors.Join(err, o.write(path, tally, ended))
}

func (o options) write(path string, tally *tally, ended ending) error {
	document, err := document(o.tool, tally, ended)
	if err != nil {
		return err
	}
	if err := writeWhole(path+".txt", tally.rest.kept.Bytes()); err != nil {
		return err
	}
	return writeWhole(path+".json", document)
}

// writeWhole writes a file atomically: it appears complete or not at all.
func writeWhole(path string, content []byte) error {
	partial, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = io.Copy(partial, bytes.NewReader(content))
	err = errors.Join(err, partial.Close())
	if err == nil {
		err = os.Rename(partial.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial.Name()))
	}
	return nil
}
