package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// asked returns the response of a proxy with this upstream, and the files in its cache afterwards.
func asked(t *testing.T, upstream http.HandlerFunc, at string) (status int, said string, kept []string) {
	t.Helper()
	t.Setenv("GOFLAGS", "-modcacherw")
	server := httptest.NewServer(upstream)
	defer server.Close()
	cache := t.TempDir()
	proxy, err := handler(server.URL, "private.example/go", cache, 1)
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	proxy.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, at, nil))
	err = filepath.WalkDir(cache, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			kept = append(kept, strings.TrimPrefix(path, filepath.Join(cache, cacheFolder)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return recorder.Code, recorder.Body.String(), kept
}

func TestKeepsWhatItsUpstreamHas(t *testing.T) {
	info := `{"Version":"v1.0.0","Time":"2024-01-02T03:04:05Z"}`
	status, said, kept := asked(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(info)) }, "/a.example/x/@v/v1.0.0.info")
	if status != http.StatusOK || said != info || len(kept) != 1 || kept[0] != "/a.example/x/@v/v1.0.0.info" {
		t.Errorf("%d %s, kept %v", status, said, kept)
	}
}

func TestKeepsNothingBroken(t *testing.T) {
	broken := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("PK\x03\x04 half of it")) }
	for _, file := range []string{"v1.0.0.zip", "v1.0.0.info", "v1.0.0.mod"} {
		if status, said, kept := asked(t, broken, "/a.example/x/@v/"+file); status < 400 || len(kept) != 0 {
			t.Errorf("%s: %d %s, kept %v", file, status, said, kept)
		}
	}
	failing := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "out of order", http.StatusInternalServerError)
	}
	if status, said, kept := asked(t, failing, "/a.example/x/@v/v1.0.0.zip"); status < 400 || len(kept) != 0 {
		t.Errorf("%d %s, kept %v", status, said, kept)
	}
}

func TestPrivateModulesAreNotAskedForUpstream(t *testing.T) {
	upstream := func(http.ResponseWriter, *http.Request) { t.Error("the upstream got a request") }
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // nothing is asked on the internet either
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	if status, said, _ := asked(t, upstream, "/private.example/go/x/@v/list"); status != http.StatusNotFound {
		t.Errorf("%d %s", status, said)
	}
}
