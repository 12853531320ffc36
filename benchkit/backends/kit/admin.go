package kit

import (
	"encoding/json"
	"expvar"
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"
)

// openAdmin opens the second listener, if -admin is set, and serves it in the background. An error goes to failed.
func (a *App) openAdmin(failed chan<- error) error {
	if a.Admin == "" {
		return nil
	}
	listener, err := Listen(a.Admin)
	if err != nil {
		return err
	}
	a.closeAtEnd(listener)
	fmt.Fprintf(a.stderr, "admin on %s\n", formatAddress(listener.Addr()))
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

// serveVars writes expvar's JSON document: the variables that the process has published, and those of the kit. It leaves
// out memstats, because reading that stops the world and would disturb a measurement every second.
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
	// An error means that the client has closed the connection.
	_ = json.NewEncoder(w).Encode(vars)
}
