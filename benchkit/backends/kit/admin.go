package kit

import (
	"encoding/json"
	"expvar"
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"
)

// openAdmin opens the second listener, if asked for, and serves it in the background. What ends it goes to failed.
func (a *App) openAdmin(failed chan<- error) error {
	if a.Admin == "" {
		return nil
	}
	listener, err := Listen(a.Admin)
	if err != nil {
		return err
	}
	a.closeAtEnd(listener)
	fmt.Fprintf(a.stderr, "admin on %s\n", written(listener.Addr()))
	server := &http.Server{Handler: a.adminHandler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { failed <- server.Serve(listener) }()
	return nil
}

// adminHandler serves /debug/vars and /debug/pprof/. The packages expvar and net/http/pprof put themselves on
// http.DefaultServeMux when they are imported; no backend serves that one.
func (a *App) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/vars", a.serveVars)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// serveVars answers with expvar's JSON document: whatever was published in the process but for memstats, which stops the
// world to be read and would bend a measurement taken every second, and what the kit knows.
func (a *App) serveVars(w http.ResponseWriter, _ *http.Request) {
	vars := map[string]any{
		"backend":    a.Name,
		"requests":   a.Requests.Value(),
		"started_at": float64(a.began.UnixMicro()) / 1e6,
		"runtime":    readRuntime(),
		"faults":     append([]string{}, a.Faults.given...),
	}
	expvar.Do(func(published expvar.KeyValue) {
		if published.Key != "memstats" {
			vars[published.Key] = json.RawMessage(published.Value.String())
		}
	})
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	// The reader has gone if this fails.
	_ = json.NewEncoder(w).Encode(vars)
}
