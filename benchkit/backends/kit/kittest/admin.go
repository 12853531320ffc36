package kittest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"benchkit/backends/kit"
)

// Admin tests the admin listener of a Go backend: its runtime, its profiles.
func Admin(t *testing.T) {
	t.Parallel()
	server := Start(t, "-listen", loopback, "-admin", loopback, "-inject-fault", "header:X-Extra=1")
	if server.Admin == "" || server.Admin == server.Address {
		t.Fatalf("admin on %q, listening on %q", server.Admin, server.Address)
	}
	vars := server.Vars(t)
	if vars.Backend == "" || vars.StartedAt < 1e9 || len(vars.Faults) != 1 {
		t.Errorf("vars: %+v", vars)
	}
	if vars.Runtime.Goroutines == nil || *vars.Runtime.Goroutines < 2 || *vars.Runtime.Goroutines > 100 {
		t.Errorf("goroutines: %+v", vars.Runtime)
	}
	for name, figure := range map[string]*uint64{
		"heap_objects_bytes": vars.Runtime.HeapObjectsBytes,
		"memory_bytes":       vars.Runtime.MemoryBytes,
		"allocated_bytes":    vars.Runtime.AllocatedBytes,
	} {
		if figure == nil || *figure == 0 {
			t.Errorf("%s is missing", name)
		}
	}
	if page := server.AdminGet(t, "/debug/vars"); strings.Contains(string(page), "memstats") {
		t.Error("memstats is published, though reading it stops the world")
	}
	profile := server.AdminGet(t, "/debug/pprof/profile?seconds=1")
	if len(profile) < 2 || profile[0] != 0x1f || profile[1] != 0x8b {
		t.Errorf("a CPU profile is gzipped; got %d bytes", len(profile))
	}
	if page := server.AdminGet(t, "/debug/pprof/"); !strings.Contains(string(page), "goroutine") {
		t.Errorf("index of profiles: %s", page)
	}
}

// Vars is the document that a backend serves at /debug/vars.
type Vars struct {
	Backend   string      `json:"backend"`
	Requests  uint64      `json:"requests"`
	StartedAt float64     `json:"started_at"`
	Faults    []string    `json:"faults"`
	Runtime   kit.Runtime `json:"runtime"`
}

// Vars requests /debug/vars from the admin listener.
func (s *Server) Vars(t *testing.T) Vars {
	t.Helper()
	var vars Vars
	if err := json.Unmarshal(s.AdminGet(t, "/debug/vars"), &vars); err != nil {
		t.Fatal(err)
	}
	return vars
}

// AdminGet returns a page of the admin listener.
func (s *Server) AdminGet(t *testing.T, path string) []byte {
	t.Helper()
	response, err := http.Get("http://" + s.Admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v: %s", path, response.StatusCode, err, page)
	}
	return page
}
