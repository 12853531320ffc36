// Command reduce reads the rows that a load tool wrote for each request, and writes one small file: an HdrHistogram of the
// response times, and exact counts. On a load host it reads them from files, after the load:
//
//	reduce -tool h2load slice1 slice2 …
//
// writes slice1.json, and slice1.txt with what the tool printed beside its rows. Without files it reads its input:
//
//	vegeta attack … | reduce -tool vegeta -out latency.json
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
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Exit codes, the same as those of the backends.
const (
	exitDone   = 0 // the file is written, even if rows could not be parsed
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	// The CPUs are needed by the load generator.
	runtime.GOMAXPROCS(1)
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// options are the options of the command line.
type options struct {
	tool      tool
	out, rest string
	// interval is the time between two requests of a constant rate; 0: there is none.
	interval time.Duration
	// files have the rows; without any, the input has them.
	files []string
}

func run(args []string, in io.Reader, stdout, stderr io.Writer) int {
	options, err := parseOptions(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "reduce: %s\n", err)
		return exitUsage
	}
	if len(options.files) > 0 {
		err = options.reduceFiles()
	} else {
		err = options.reduce(in)
	}
	if err != nil {
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
	flags.StringVar(&options.out, "out", "", "`file` to write, as JSON")
	flags.StringVar(&options.rest, "rest", "", "`file` for what the tool prints beside its rows, such as ab's summary")
	flags.DurationVar(&options.interval, "interval", 0, "`time` between two requests of vegeta: times count from when a "+
		"request was due")
	err := flags.Parse(args)
	options.files = flags.Args()
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(stdout, "Usage of reduce, for rows on its input or in files:")
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return options, err
	case err != nil:
		return options, err
	case options.tool.name == "":
		return options, errors.New("flag -tool is missing")
	case len(options.files) > 0 && (options.out != "" || options.rest != ""):
		return options, fmt.Errorf("unexpected argument %q: files have their outputs beside them, without -out and -rest",
			options.files[0])
	case len(options.files) == 0 && options.out == "":
		return options, errors.New("flag -out is missing")
	case options.interval < 0 || options.interval > 0 && !options.tool.numbered:
		return options, errors.New("flag -interval is for tools that number their requests: vegeta")
	}
	return options, nil
}

// reduce reads rows until the input ends or a signal arrives, and writes the files. If reading fails, it writes the rows
// read until then.
func (o options) reduce(in io.Reader) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	tally := newTally(o.interval.Nanoseconds())
	source := &source{in: in}
	type outcome struct {
		ended ending
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		source.busy.Lock()
		defer source.busy.Unlock()
		ended, err := o.tool.read(source, tally)
		done <- outcome{ended, err}
	}()

	var last outcome
	select {
	case last = <-done:
	case <-signals:
		source.busy.Lock() // the reader waits for input and does not continue
		last.ended = endedStopped
	}
	return errors.Join(last.err, o.write(tally, last.ended))
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

// reduceFile reads the rows of a file and writes the files beside it.
func (o options) reduceFile(path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	tally := newTally(o.interval.Nanoseconds())
	ended, err := o.tool.read(in, tally)
	o.out, o.rest = path+".json", path+".txt"
	return errors.Join(err, o.write(tally, ended))
}

func (o options) write(tally *tally, ended ending) error {
	document, err := document(o.tool, tally, ended)
	if err != nil {
		return err
	}
	if o.rest != "" {
		if err := writeWhole(o.rest, tally.rest.kept.Bytes()); err != nil {
			return err
		}
	}
	return writeWhole(o.out, document)
}

// source is the input; its lock is held while the tally changes, that is, outside of reads.
type source struct {
	in   io.Reader
	busy sync.Mutex
}

func (s *source) Read(into []byte) (int, error) {
	s.busy.Unlock()
	defer s.busy.Lock()
	return s.in.Read(into)
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
