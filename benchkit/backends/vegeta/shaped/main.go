// Command shaped attacks with vegeta's own attacker at a rate that changes, which vegeta's command line cannot.
//
//	shaped -targets vegeta.targets -stages 500x2ms,1000x1ms,500x2ms -connections 64 | reduce -tool vegeta …
//
// Results go to stdout in vegeta's own form. Flags that vegeta has too mean the same.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	var stages schedule
	flag.Var(&stages, "stages", "`schedule` of the requests: numbers of them and the time between two, as 500x2ms,1000x1ms")
	targets := flag.String("targets", "", "`file` with the targets, in vegeta's HTTP format")
	connections := flag.Int("connections", vegeta.DefaultConnections, "connections, at most")
	keepalive := flag.Bool("keepalive", true, "keep connections open")
	timeout := flag.Duration("timeout", vegeta.DefaultTimeout, "time after which a request has failed")
	flag.Parse()
	if len(stages) == 0 || *targets == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "shaped: flags -targets and -stages are needed, and no other arguments")
		os.Exit(exitUsage)
	}
	if err := attack(*targets, stages, *connections, *keepalive, *timeout); err != nil {
		fmt.Fprintf(os.Stderr, "shaped: %s\n", err)
		os.Exit(exitFailed)
	}
}

func attack(targets string, stages schedule, connections int, keepalive bool, timeout time.Duration) error {
	file, err := os.Open(targets)
	if err != nil {
		return err
	}
	defer file.Close()
	all, err := vegeta.ReadAllTargets(vegeta.NewHTTPTargeter(file, nil, nil))
	if err != nil {
		return err
	}
	attacker := vegeta.NewAttacker(
		vegeta.Redirects(vegeta.NoFollow),
		vegeta.Timeout(timeout),
		vegeta.KeepAlive(keepalive),
		vegeta.Connections(connections),
		vegeta.MaxConnections(connections),
	)
	encoder := vegeta.NewEncoder(os.Stdout)
	for result := range attacker.Attack(vegeta.NewStaticTargeter(all...), stages, 0, "") {
		if err := encoder.Encode(result); err != nil {
			return err
		}
	}
	return nil
}
